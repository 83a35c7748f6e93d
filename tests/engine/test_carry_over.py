"""What clients have left when a limit changes, as its rule says, wherever buckets are kept."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from limen import Rule
from limen.core.carry import Carry
from limen.rules.ruleset import RuleSet

HOWS = ["as-is", "proportional", "additive", "reset"]
WINDOWS = ["fixed_window", "sliding_window", "sliding_log"]


@pytest.mark.parametrize(
    ("before", "spent", "after", "left"),
    [
        ("100/hour", 70, "1000/hour", {"as-is": 30, "proportional": 300, "additive": 930, "reset": 1000}),
        ("100/hour", 70, "10/hour", {"as-is": 10, "proportional": 3, "additive": 10, "reset": 10}),
        ("100/hour", 95, "10/hour", {"as-is": 5, "proportional": 0, "additive": 5, "reset": 10}),
        ("100/hour", 100, "150/hour", {"as-is": 0, "proportional": 0, "additive": 50, "reset": 150}),
        ("100/hour", 0, "1000/hour", {"as-is": 1000, "proportional": 1000, "additive": 1000, "reset": 1000}),
        ("3/hour", 2, "7/hour", {"as-is": 1, "proportional": 2, "additive": 5, "reset": 7}),
    ],
)
@pytest.mark.parametrize("how", HOWS)
async def test_a_token_bucket(lab: Any, before: str, spent: int, after: str, left: dict[str, int], how: str) -> None:
    door = await lab.open(Rule("r", limit=before))
    await door.take(spent)
    door.use(Rule("r", limit=after, carry_over=how))
    assert (await door.peek()).remaining == left[how]
    assert (await door.peek()).remaining == left[how]  # once


@pytest.mark.parametrize(
    ("before", "spent", "after", "left"),
    [
        (100, 70, 1000, {"as-is": 930, "proportional": 300, "additive": 930, "reset": 1000}),
        (100, 70, 10, {"as-is": 0, "proportional": 3, "additive": 10, "reset": 10}),
        (100, 95, 10, {"as-is": 0, "proportional": 0, "additive": 5, "reset": 10}),
        (100, 100, 150, {"as-is": 50, "proportional": 0, "additive": 50, "reset": 150}),
    ],
)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("algorithm", WINDOWS)
async def test_a_window(
    lab: Any, algorithm: str, before: int, spent: int, after: int, left: dict[str, int], how: str
) -> None:
    door = await lab.open(Rule("r", limit=f"{before}/hour", algorithm=algorithm))
    await door.take(spent)
    lab.advance(60)
    door.use(Rule("r", limit=f"{after}/hour", algorithm=algorithm, carry_over=how))
    found = (await door.peek()).remaining
    fading = 2 if algorithm == "sliding_window" else 0  # nothing of this window yet, but arithmetic rounds down
    assert left[how] <= found <= left[how] + fading


async def test_what_has_grown_until_the_first_question_counts(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="60/hour"))
    await door.take(60)
    door.use(Rule("r", limit="6000/hour", carry_over="proportional"))
    lab.advance(60)
    assert (await door.peek()).remaining == 100  # one of 60, so a hundred of 6000
    lab.advance(60)
    assert (await door.peek()).remaining == 200  # and from then on at the new rate


@pytest.mark.parametrize("how", ["proportional", "additive", "reset"])
async def test_everything_is_there_at_the_time_that_was_told(lab: Any, how: str) -> None:
    door = await lab.open(Rule("r", limit="10/minute"))
    await door.take(10)
    door.use(Rule("r", limit="20/hour", carry_over=how))
    found = await door.take(20)
    if not found.allowed:
        lab.advance(found.retry_after_ms / 1000 - 0.002)
        assert not (await door.take(20)).allowed
        lab.advance(0.002)
        assert (await door.take(20)).allowed
    assert (await door.peek()).remaining == 0


@pytest.mark.parametrize("how", ["proportional", "additive", "reset"])
async def test_a_bucket_follows_once_though_gateways_follow_one_after_the_other(lab: Any, how: str) -> None:
    """A gateway that is late neither brings the old bucket back nor takes away what the new one holds."""
    old, new = Rule("r", limit="10/day"), Rule("r", limit="40/day", carry_over=how)
    first, late = await lab.open(old), await lab.open(old)
    await first.take(5)
    first.use(new)
    begin = {"proportional": 20, "additive": 35, "reset": 40}[how]
    found = [await first.take()]
    for _ in range(3):
        found += [await late.take(), await first.take()]
    late.use(new)
    found += [await late.take(), await first.take()]
    assert [each.allowed for each in found] == [True] * 9
    assert (await first.peek()).remaining == begin - 9
    assert found[1].remaining == 9  # what a late one knows of is 10


async def test_RU_13_a_late_gateway_cannot_revive_what_an_emergency_limit_took(lab: Any) -> None:
    old, new = Rule("r", limit="1000000/hour"), Rule("r", limit="1/hour", carry_over="reset")
    a, b = await lab.open(old), await lab.open(old)
    await b.take()
    a.use(new)
    found = [(await a.take()).allowed, (await a.take()).allowed, (await b.take()).allowed]
    b.use(new)
    found += [(await b.take()).allowed, (await a.take()).allowed]
    assert found == [True, False, False, False, False]


async def test_a_client_that_only_late_gateways_have_seen_follows_all_the_same(lab: Any) -> None:
    old, new = Rule("r", limit="10/day"), Rule("r", limit="100/day", carry_over="proportional")
    first, late = await lab.open(old), await lab.open(old)
    first.use(new)
    await late.take(4)
    assert (await first.peek()).remaining == 60


async def test_one_change_after_the_other_each_converts_what_it_finds(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="100/day"))
    await door.take(50, client="a")
    await door.take(50, client="b")
    door.use(Rule("r", limit="10/day", carry_over="proportional"))
    assert (await door.peek(client="a")).remaining == 5
    lab.advance(1)
    door.use(Rule("r", limit="1000/day", carry_over="proportional"))
    assert [(await door.peek(client=client)).remaining for client in "ab"] == [500, 500]
    lab.advance(1)
    door.use(Rule("r", limit="20/day", carry_over="as-is"))
    assert [(await door.peek(client=client)).remaining for client in "ab"] == [20, 20]


async def test_another_way_to_count_begins_full_whatever_is_carried_over(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="10/hour"))
    await door.take(9)
    door.use(Rule("r", limit="20/hour", algorithm="fixed_window", carry_over="proportional"))
    assert (await door.peek()).remaining == 20


async def test_other_changes_of_a_rule_convert_nothing(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="10/hour", carry_over="reset"))
    await door.take(9)
    for fields in ({"mode": "shadow"}, {"cost": 2}, {"public_name": "x"}, {"match": {"path": "/x"}}, {}):
        door.use(Rule("r", limit="10/hour", carry_over="reset", **fields))
    assert (await door.peek()).remaining == 1


async def test_granted_tokens_stay_on_top(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="10/day"))
    await door.take(5)
    await door.grant(7, seconds=3600)
    door.use(Rule("r", limit="20/day", carry_over="proportional"))
    assert (await door.peek()).remaining == 17
    assert [(await door.take(12)).allowed, (await door.take(5)).allowed, (await door.take(1)).allowed] == [
        True, True, False,
    ]  # fmt: skip
    await door.reset(rule="r")
    assert (await door.peek()).remaining == 20


async def test_when_all_have_followed_buckets_are_plain_again(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="10/minute"))
    await door.take(10)
    door.use(Rule("r", limit="20/minute", carry_over="proportional"))
    await door.take(0)
    (rule,) = door.limiter.ruleset.rules
    assert rule.carry is not None
    lab.advance(125)
    door.use(Rule("r", limit="20/minute", carry_over="proportional"))
    (rule,) = door.limiter.ruleset.rules
    assert rule.carry is None
    await door.take(15)
    assert (await door.peek()).remaining == 5
    if lab.redis is not None:
        (value,) = lab.redis.hgetall(lab.stored()[0]).values()
        assert value.isdigit()


async def test_the_store_ends_it_at_one_moment_for_everybody(lab: Any) -> None:
    """A gateway that has not noticed converts nothing any more."""
    door = await lab.open(Rule("r", limit="10/hour"))
    before, after = Rule("r", limit="10/hour"), Rule("r", limit="100/hour", carry_over="reset")
    until_us = lab.clock.now_us() + 60_000_000
    await door.take(10)
    lab.advance(60)
    door.limiter.use_rules(RuleSet([after.carried_by(Carry(2, "reset", before.limit, until_us))], 2, {"r": 2}))
    assert (await door.peek()).remaining == 1


async def test_many_clients_are_converted_each_once(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="10/day"))
    for number in range(20):
        await door.take(number % 11, client=f"client {number}")
    door.use(Rule("r", limit="30/day", carry_over="proportional"))
    for _ in range(2):
        found = [(await door.peek(client=f"client {number}")).remaining for number in range(20)]
        assert found == [30 - 3 * (number % 11) for number in range(20)]
    assert all(one >= 0 for one, _ in pairwise(found))


async def test_two_rules_of_one_request_move_at_once(lab: Any) -> None:
    from limen.rules.request import Request

    everything = {"path": "/**"}
    rules = [
        Rule("a", match=everything, limit="10/day"),
        Rule("b", match=everything, limit="20/day", key_by=["ip"]),
    ]
    door = await lab.open(*rules)
    request = Request(client="acme", ip="192.0.2.7")
    for _ in range(5):
        await door.request(request)
    door.use(
        Rule("a", match=everything, limit="100/day", carry_over="proportional"),
        Rule("b", match=everything, limit="10/day", key_by=["ip"], carry_over="reset"),
    )
    assert (await door.request(request)).allowed
    left = [(await door.peek(rule="a")).remaining, (await door.peek(client="192.0.2.7", rule="b")).remaining]
    assert left == [49, 9]
