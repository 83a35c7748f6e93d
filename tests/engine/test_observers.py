"""Whoever wants to know is told of every decision, once."""

from __future__ import annotations

from typing import Any

from limen.core.decision import Decision
from limen.rules.model import Rule
from limen.rules.request import Request


class Seen:
    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.durations: list[int] = []

    def on_decision(self, decision: Decision, duration_us: int) -> None:
        self.decisions.append(decision)
        self.durations.append(duration_us)

    def on_store_error(self, kind: str, shard: str) -> None:
        raise AssertionError(kind)


async def test_every_decision_is_seen_once_and_looks_are_not(lab: Any) -> None:
    seen = Seen()
    rules = [Rule("r", match={"path": "/**"}, limit="2/minute"), Rule("free", limit="unlimited")]
    door = await lab.open(*rules, observer=seen)
    given = [await door.take() for _ in range(4)]
    given.append(await door.request(Request(client="other")))
    given.append(await door.take(rule="free"))
    door.use(*rules, Rule("none", limit="0/day"))
    given.append(await door.take(rule="none"))
    await door.peek()
    assert seen.decisions == given
    assert all(duration >= 0 for duration in seen.durations)
