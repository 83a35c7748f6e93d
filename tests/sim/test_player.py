"""A replay decides what a limiter decides that is asked the same at the same times."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import limen.sim.player
from limen.engine.limiter import Limiter
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet
from limen.sim.player import Player
from limen.testing import ManualClock

LIMITS = ["1/second", "2/minute", "3/second burst 5", "unlimited", 0]
WINDOWS = {"fixed_window": "3/minute", "sliding_window": "3/minute", "sliding_log": "2/second"}
PATHS = ["/", "/v1/a", "/v1/a/7", "/v1/b", "//v1/./a", "/v1/%61?x=1"]

matches = st.fixed_dictionaries(
    {},
    optional={
        "path": st.sampled_from(["/v1/**", "/v1/a", "/v1/{name}", "/v1/{name}/*"]),
        "methods": st.sampled_from([["GET"], ["POST"]]),
        "plan": st.sampled_from([["free"], ["gold", "free"]]),
        "client": st.sampled_from([["acme"], ["other"]]),
        "ip": st.sampled_from([["192.0.2.0/24"], ["198.51.100.7"]]),
        "header": st.just({"x-tier": "gold"}),
    },
)


@st.composite
def rule_fields(draw: st.DrawFn) -> dict[str, Any]:
    match = draw(matches)
    captured = ["path.name"] if "{name}" in match.get("path", "") else []
    parts = ["client", "ip", "user", "plan", "header.x-tier", *captured]
    fields = {"match": match, "key_by": draw(st.lists(st.sampled_from(parts), max_size=2, unique=True))}
    if draw(st.integers(0, 3)) == 0:
        algorithm = draw(st.sampled_from(list(WINDOWS)))
        fields |= {"algorithm": algorithm, "limit": WINDOWS[algorithm]}
    else:
        fields["limit"] = draw(st.sampled_from(LIMITS))
    if fields["limit"] in ("3/second burst 5", "unlimited") and draw(st.booleans()):
        fields["cost"] = {"default": 1, "when": [{"path": "/v1/b", "cost": 2}, {"client": "acme", "cost": 3}]}
    if fields["limit"] in ("1/second", "2/minute") and draw(st.integers(0, 3)) == 0:
        fields["candidate"] = "1/minute"
    fields["mode"] = draw(st.sampled_from(["enforce", "enforce", "enforce", "shadow", "off"]))
    fields["rollout"] = draw(st.sampled_from([100, 100, 100, 50]))
    return fields


requests = st.builds(
    Request,
    method=st.sampled_from(["GET", "POST"]),
    path=st.sampled_from(PATHS),
    client=st.sampled_from([None, "acme", "other"]),
    plan=st.sampled_from([None, "free"]),
    user=st.sampled_from([None, "jo"]),
    ip=st.sampled_from([None, "192.0.2.7", "198.51.100.7", "2001:db8::7"]),
    headers=st.sampled_from([{}, {"x-tier": "gold"}]),
)
streams = st.lists(st.tuples(st.integers(0, 20_000_000), requests), max_size=60)


def distinct(fields: list[dict[str, Any]]) -> RuleSet:
    """A set without twins, which no set may have."""
    kept = {repr({name: each[name] for name in each if name != "id"}): each for each in fields}
    return RuleSet([Rule(f"r{number}", **each) for number, each in enumerate(kept.values())])


@settings(max_examples=100)
@given(st.lists(rule_fields(), min_size=1, max_size=5).map(distinct), streams)
def test_a_replay_is_what_a_limiter_says_that_is_asked_by_hand(ruleset: RuleSet, stream: Any) -> None:
    clock = ManualClock(0)
    by_hand, player = Limiter("memory://", ruleset, clock=clock), Player(ruleset)
    at_us = 1_431_857_103_000_000
    for later_us, request in stream:
        at_us += later_us
        clock.set(at_us / 1_000_000)
        wanted, found = by_hand.check_request(request), player.play(at_us, request)
        if found is None:
            assert (wanted.allowed, wanted.shadow, wanted.candidates) == (True, (), ())
        else:
            assert found == wanted


def test_what_comes_late_is_decided_when_it_comes() -> None:
    player = Player(RuleSet([Rule("r", limit="1/minute")]))
    assert player.play(60_000_000, Request(client="acme")) is None
    late = player.play(0, Request(client="acme"))
    assert late is not None
    assert late.retry_after_ms == 60_000


def test_what_is_known_of_requests_is_bounded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limen.sim.player, "MOST_KNOWN", 50)
    counted: list[tuple[int, list[str]]] = []
    player = Player(RuleSet([Rule("r", limit="1/minute")]), lambda known: counted.append((known.count, known.ids)))
    for number in range(600):
        player.play(number, Request(path=f"/{number % 80}", client=str(number)))
        assert len(player._known) <= 50
    player.finish()
    assert sum(count for count, ids in counted if ids == ["r"]) == 600
