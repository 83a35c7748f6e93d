"""Changes that do more harm than predicted are taken back: the real database, the real service, counts by hand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from limen.admin.guard import Guard
from limen.admin.guard_settings import GuardSettings
from limen.admin.records import UNSIGNED, Signature
from limen.admin.repository import Repository
from limen.admin.service import AdminService
from limen.admin.watch_keeper import WatchKeeper, keep
from limen.admin.watches import Watch
from limen.rules.effect import Effect
from limen.rules.ruleset import RuleSet

NOW = 1_700_000_000
ADA = Signature("ada", "editor", "cheaper", confirmed=True)


class House:
    """A service with a guard that is told what to predict, gateways that are told what to count, and a watch."""

    def __init__(self, url: str) -> None:
        self.now = NOW
        self.repository = Repository(url, now=lambda: self.now)
        self.effect = Effect(10_000, 50, 0, 100, 100, 0, 2, covered={"search": 9000, "login": 9000})
        self.errors: list[Exception] = []
        self.told = 0
        guard = Guard(GuardSettings(), self.judge, self.enter)
        self.service = AdminService(self.repository, changed=self.changed, guard=guard)
        self.elsewhere = Repository(url, now=lambda: self.now)
        other = AdminService(self.elsewhere, changed=self.changed, guard=guard)
        self.keepers = [
            WatchKeeper(repository.watches, service, guard, 1.0, self.errors.append)
            for repository, service in ((self.repository, self.service), (self.elsewhere, other))
        ]
        self.numbers = 0

    async def judge(self, before: RuleSet, after: RuleSet) -> Effect | None:
        return self.effect

    async def enter(self, change: Any, review: Any) -> None:
        await self.repository.watches.begin(change, review, 600)

    async def changed(self) -> None:
        self.told += 1

    async def put(self, rule: str, by: Signature = ADA, **document: Any) -> int:
        await self.service.put_rule(rule, document, by=by)
        return await self.repository.revision()

    async def count(self, requests: int, revision: int | None = None, **denied: int) -> None:
        """A gateway tells that, of the newest rules."""
        self.numbers += 1
        at = await self.repository.revision() if revision is None else revision
        await self.repository.watches.tell("gateway", self.numbers, at, requests, denied)

    async def look(self) -> Watch:
        """Both services look at once; what is known of the change that was watched first."""
        await asyncio.gather(*[keeper.once() for keeper in self.keepers])
        assert self.errors == []
        return (await self.repository.watches.recent())[-1]

    async def limits(self) -> Mapping[str, Any]:
        """What is in force."""
        _, rules = await self.service.rules()
        return {rule.id: rule.document.partition('"limit": ')[2].strip('"}') for rule in rules}


@pytest.fixture
async def house(sqlite_url: str) -> AsyncIterator[House]:
    """A house with one rule, which denies one of a hundred requests."""
    house = House(sqlite_url)
    async with house.repository, house.elsewhere:
        await house.service.edit({"search": {"limit": "100/minute"}}, UNSIGNED)
        await house.count(5000, search=50)
        yield house


async def only(house: House) -> None:
    """End the watch over what the house began with."""
    for watch in (await house.repository.watches.running())[1]:
        await house.repository.watches.end(watch.revision, "passed", "")


async def test_what_denies_much_more_than_predicted_is_taken_back_once(house: House) -> None:
    await only(house)
    revision = await house.put("search", limit="20/minute")
    told = house.told
    await house.count(2000, search=600)
    await house.look()
    newest = (await house.repository.watches.recent())[0]
    assert (newest.revision, newest.state) == (revision, "rolled_back")
    assert await house.limits() == {"search": "100/minute"}
    assert house.told == told + 1, "who decides here follows at once"
    back = (await house.service.versions("search"))[-1]
    assert (back.version, back.action, back.author) == (3, "rollback", "watch")
    assert back.reason == f"revision {revision} denies 29.00 % of 2000 requests newly, and 1.00 % was predicted"
    await house.count(2000, search=1500)
    await house.look()
    assert len(await house.service.versions("search")) == 3, "a rollback is not watched, and happens once"


async def test_what_does_as_predicted_stays_and_the_watch_ends(house: House) -> None:
    await only(house)
    revision = await house.put("search", limit="50/minute")
    await house.count(3000, search=60)
    await house.look()
    watch = (await house.repository.watches.recent())[0]
    assert (watch.state, watch.requests, watch.denied, watch.seen) == ("watching", 3000, 60, pytest.approx(0.01))
    house.now += 600
    await house.look()
    watch = (await house.repository.watches.recent())[0]
    assert (watch.revision, watch.state, watch.note) == (revision, "passed", "1.00 % newly denied")
    assert await house.limits() == {"search": "50/minute"}


async def test_gateways_that_do_not_have_the_change_yet_say_nothing_of_it(house: House) -> None:
    await only(house)
    revision = await house.put("search", limit="50/minute")
    await house.count(5000, revision=revision - 1, search=4000)
    await house.look()
    assert await house.limits() == {"search": "50/minute"}


async def test_a_new_rule_that_hurts_is_deleted_again(house: House) -> None:
    await house.put("login", match={"path": "/login"}, limit="5/minute")
    await house.count(2000, login=900)
    await house.look()
    assert await house.limits() == {"search": "100/minute"}


async def test_all_rules_of_a_change_go_back_together(house: House) -> None:
    await house.service.apply({"search": {"limit": "50/minute"}, "login": {"limit": "60/minute"}}, by=ADA)
    await house.count(2000, login=900)
    await house.look()
    assert await house.limits() == {"search": "100/minute"}


async def test_what_somebody_changed_again_is_left_alone(house: House) -> None:
    await only(house)
    revision = await house.put("search", limit="50/minute")
    await house.count(2000, search=1500)
    async with house.repository.change() as change:  # by means that know no watch
        await change.put_rule("search", '{"id": "search", "limit": "40/minute"}')
    await house.look()
    (watch,) = [each for each in await house.repository.watches.recent() if each.revision == revision]
    assert watch.state == "superseded"
    assert "version 3" in watch.note
    assert await house.limits() == {"search": "40/minute"}


async def test_a_change_that_somebody_keeps_is_kept_and_the_audit_log_says_who(house: House) -> None:
    await only(house)
    revision = await house.put("search", limit="50/minute")
    assert await keep(house.repository, revision, ADA)
    assert not await keep(house.repository, revision, ADA)
    await house.count(2000, search=1500)
    await house.look()
    assert await house.limits() == {"search": "50/minute"}
    assert (await house.repository.watches.recent())[0].note == "ada: cheaper"
    newest = (await house.service.audit())[0]
    assert (newest.action, newest.subject, newest.author) == ("watch.end", f"revision:{revision}", "ada")


async def test_what_cannot_be_taken_back_is_said_and_not_tried_for_ever(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    await only(house)
    twin = {"match": {"path": "/twin"}, "limit": "100/minute"}
    await house.put("search", **twin)
    await only(house)
    revision = await house.put("search", match={"path": "/twin"}, limit="50/minute")
    await house.put("login", **twin)
    house.effect = house.effect._replace(covered={})
    await house.count(2000, search=1500)
    with caplog.at_level(logging.ERROR, "limen.rules"):
        await house.look()
    (watch,) = [each for each in await house.repository.watches.recent() if each.revision == revision]
    assert watch.state == "failed"
    assert "does what rule" in watch.note
    assert "cannot be taken back" in caplog.text


async def test_a_database_that_is_away_is_told_and_tried_again(house: House) -> None:
    class Away:
        async def running(self) -> Any:
            raise OSError("no such host")

    keeper = WatchKeeper(Away(), house.service, Guard(GuardSettings()), 1.0, house.errors.append)  # type: ignore[arg-type]
    await keeper.once()
    assert [str(error) for error in house.errors] == ["no such host"]
