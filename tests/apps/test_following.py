"""What a process says about its rules: which it has, how old they are, and each thing once."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from limen.adapters.telemetry.prometheus import PrometheusObserver
from limen.admin.repository import Repository
from limen.apps.following import Following
from limen.apps.seldom import PAUSE_S, Seldom
from limen.apps.settings import Shared, default_state
from limen.errors import SettingsError
from limen.rules.ruleset import RuleSet

Until = Callable[[Callable[[], object]], Awaitable[None]]


class House:
    """A database in a folder that can be taken away, and processes that follow it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'here' / 'rules.db'}"
        self.used: list[RuleSet] = []

    async def put(self, limit: str) -> None:
        (self.folder / "here").mkdir(exist_ok=True)
        async with Repository(self.url) as repository, repository.change() as change:
            await change.put_rule("a", json.dumps({"id": "a", "limit": limit}))

    def move(self, before: str, after: str) -> None:
        (self.folder / before).rename(self.folder / after)

    def following(self, repository: Repository) -> Following:
        settings = Shared(store="memory://", rules_db=self.url, state=self.folder / "state", poll_s=0.1)
        return Following(settings, repository, PrometheusObserver(), on_rules=self.used.append, on_look=lambda: None)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def test_nothing_there_and_nothing_saved_is_no_rules_and_one_line(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    async with Repository(house.url) as repository:
        following = house.following(repository)
        assert not await following.find()
        for _ in range(5):
            await following.watcher.once()
    assert house.used == []
    assert sum("Until there are rules" in record.getMessage() for record in caplog.records) == 1
    assert sum("there are no rules yet" in record.getMessage() for record in caplog.records) == 1


async def test_saved_rules_are_used_and_the_log_says_when_they_are_those_of_today(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    await house.put("1/minute")
    async with Repository(house.url) as repository:
        assert await house.following(repository).find()
    house.move("here", "away")
    async with Repository(house.url) as repository:
        following = house.following(repository)
        assert await following.find()
        assert [rule.id for rule in following.ruleset.rules] == ["a"]
        for _ in range(3):
            await following.watcher.once()
        said = [record.getMessage() for record in caplog.records]
        assert sum("decided by" in line or "deciding by the rules that were saved" in line for line in said) == 1
        assert sum("the rules may be old" in line for line in said) == 1
        house.move("away", "here")
        await following.watcher.once()
        assert caplog.records[-1].getMessage() == "the rules are those of the database again"


async def test_another_database_at_the_same_place_is_told(house: House, caplog: pytest.LogCaptureFixture) -> None:
    await house.put("1/minute")
    async with Repository(house.url) as repository:
        await house.following(repository).find()
    house.move("here", "away")
    async with Repository(house.url) as repository:
        following = house.following(repository)
        await following.find()
        await house.put("2/minute")
        await following.watcher.once()
        assert [rule.limit.capacity for rule in following.ruleset.rules if rule.limit] == [2]
    assert [record for record in caplog.records if "another secret" in record.getMessage()]


async def test_an_address_that_is_none_is_an_error_at_once(tmp_path: Path) -> None:
    url = "postgresql://user:hunter2/more@127.0.0.1/limen"
    async with Repository(url) as repository:
        settings = Shared(store="memory://", rules_db=url, state=tmp_path)
        following = Following(
            settings, repository, PrometheusObserver(), on_rules=lambda rules: None, on_look=lambda: None
        )
        with pytest.raises(SettingsError):
            await following.find()


async def test_a_database_that_is_silent_is_waited_for_in_vain_and_not_for_long(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.put("1/minute")
    async with Repository(house.url) as repository:
        await house.following(repository).find()
        following = house.following(repository)

        async def silence() -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(repository, "snapshot", silence)
        async with asyncio.timeout(20):
            assert await following.find()
        assert following.watcher.from_disk


def test_a_line_comes_again_after_a_minute_or_when_it_says_something_else(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    words = Seldom(logging.getLogger("limen"), lambda: now)
    for sentence in ("away", "away", "locked", "locked", "away"):
        words.warning("rules", sentence)
    now += PAUSE_S
    words.warning("rules", "away")
    words.over("rules", "back")
    words.over("rules", "back")
    words.warning("rules", "away")
    assert [record.getMessage() for record in caplog.records] == [
        "away", "locked", "away", "away", "back", "away"
    ]  # fmt: skip


def test_the_folder_for_rules_is_that_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_state({"XDG_STATE_HOME": "/var/state"}) == Path("/var/state/limen")
    assert default_state({"XDG_STATE_HOME": "not/whole"}) == Path.home() / ".local/state/limen"

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    assert default_state({}) is None


async def test_a_rule_whose_buckets_have_all_followed_a_change_is_plain_again(house: House, until: Until) -> None:
    await house.put("5/minute")
    async with Repository(house.url, now=lambda: time.time() - 3600) as repository, repository.change() as change:
        await change.put_rule("a", json.dumps({"id": "a", "limit": "9/minute", "carry_over": "reset"}))
    async with Repository(house.url) as repository:
        following = house.following(repository)
        assert await following.find()
        assert house.used[0].rules[0].carry is not None
        await following.watcher.once()
        await until(lambda: len(house.used) == 2)
        (rule,) = house.used[1].rules
        assert (rule.carry, house.used[1].revision, house.used[1].versions) == (None, 2, {"a": 2})
        await following.watcher.once()
        assert len(house.used) == 2
        assert following.ruleset is house.used[1]
