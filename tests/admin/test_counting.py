"""What a process tells of what it denied."""

from collections.abc import Mapping
from typing import Any

import pytest

from limen.adapters.telemetry.prometheus import PrometheusObserver
from limen.admin.counting import Counting
from limen.core.decision import Decision
from limen.errors import RulesUnavailable

Word = tuple[int, int, int, Mapping[str, int]]


class Ear:
    def __init__(self) -> None:
        self.heard: list[Word] = []
        self.away = False

    async def tell(self, gateway: str, number: int, revision: int, requests: int, denied: Mapping[str, int]) -> None:
        if self.away:
            raise RulesUnavailable("away")
        assert gateway == "me"
        self.heard.append((number, revision, requests, denied))


class Process:
    """A process that counts, and the one who listens."""

    def __init__(self) -> None:
        self.counted: dict[str, tuple[int, int]] = {}
        self.revision = 1
        self.ear = Ear()
        self.errors: list[Exception] = []
        self.counting = Counting(self.ear, "me", lambda: dict(self.counted), lambda: self.revision, self.errors.append)

    async def tell(self) -> list[Word]:
        before = len(self.ear.heard)
        await self.counting.once()
        return self.ear.heard[before:]


@pytest.fixture
async def process() -> Process:
    process = Process()
    await process.tell()
    return process


async def test_only_what_is_new_is_told_and_nothing_when_nothing_is(process: Process) -> None:
    process.counted = {"a": (10, 3), "b": (5, 0), "-": (2, 0)}
    assert await process.tell() == [(1, 1, 17, {"a": 3})]
    assert await process.tell() == []
    process.counted["a"] = (14, 3)
    assert await process.tell() == [(2, 1, 4, {})]


async def test_what_was_counted_while_the_rules_changed_counts_for_those_before(process: Process) -> None:
    process.counted = {"a": (10, 3)}
    process.revision = 2
    assert [word[1] for word in await process.tell()] == [1]
    process.counted = {"a": (20, 3)}
    assert [word[1] for word in await process.tell()] == [2]


async def test_a_rule_that_is_gone_and_made_again_begins_anew(process: Process) -> None:
    process.counted = {"a": (10, 3), "b": (1, 1)}
    await process.tell()
    process.counted = {"b": (1, 1)}
    assert await process.tell() == []
    process.counted = {"a": (4, 1), "b": (1, 1)}
    assert await process.tell() == [(2, 1, 4, {"a": 1})]


async def test_what_could_not_be_told_is_told_the_next_time(process: Process) -> None:
    process.counted = {"a": (10, 3)}
    process.ear.away = True
    assert await process.tell() == []
    assert [type(error) for error in process.errors] == [RulesUnavailable]
    process.ear.away = False
    process.counted = {"a": (12, 4)}
    assert await process.tell() == [(1, 1, 12, {"a": 4})], "under the number that was not heard, perhaps"


def decision(rule: str | None, allowed: bool, **fields: Any) -> Decision:
    whole: dict[str, Any] = {"reason": "allowed" if allowed else "over_limit", "source": "store", **fields}
    return Decision(allowed, 5, 0, 0, 0, rule, **whole)


def test_decisions_are_counted_by_the_rule_that_is_shown() -> None:
    observer = PrometheusObserver()
    for each in (
        decision("a", True),
        decision("a", False),
        decision("a", False, source="deny_cache"),
        decision("a", False, source="local_share", degraded=True),
        decision("b", False, reason="store_unavailable", source="none"),
        decision(None, True, source="none", shadow=("b",)),
    ):
        observer.on_decision(each, 100)
    assert observer.counted() == {"a": (3, 2), "b": (1, 0), "-": (1, 0)}
