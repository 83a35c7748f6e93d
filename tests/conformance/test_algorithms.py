"""What every algorithm does behind every kind of limiter and store."""

from __future__ import annotations

from typing import Any

import pytest

from limen.errors import UsageError
from limen.rules.model import Rule
from limen.rules.request import Request

ALGORITHMS = ["token_bucket", "fixed_window", "sliding_window", "sliding_log"]
every_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)
valkey_only = pytest.mark.parametrize("lab", ["Valkey"], indirect=True)


@every_algorithm
async def test_the_limit_passes_and_no_more(lab: Any, algorithm: str) -> None:
    door = await lab.open(Rule("r", algorithm=algorithm, limit="5/minute"))
    found = [await door.take() for _ in range(7)]
    assert [each.allowed for each in found] == [True] * 5 + [False] * 2
    assert [each.remaining for each in found] == [4, 3, 2, 1, 0, 0, 0]
    assert {each.reason for each in found[5:]} == {"over_limit"}


@every_algorithm
async def test_who_waits_as_told_is_let_in_and_not_before(lab: Any, algorithm: str) -> None:
    door = await lab.open(Rule("r", algorithm=algorithm, limit="3/minute"))
    for second in (0, 7, 20):
        lab.at(second)
        await door.take()
    refused = await door.take(2)
    lab.advance(refused.retry_after_ms / 1000 - 0.002)
    assert not (await door.take(2)).allowed
    lab.advance(0.002)
    assert (await door.take(2)).allowed


@pytest.mark.parametrize(
    ("algorithm", "waits"),
    [
        ("token_bucket", (10_000, 40_000)),
        ("fixed_window", (40_000, 40_000)),
        ("sliding_window", (70_000, 100_000)),
        ("sliding_log", (40_000, 60_000)),
    ],
)
async def test_waits_and_resets(lab: Any, algorithm: str, waits: tuple[int, int]) -> None:
    """Two a minute, spent at 0 and at 10 or 20 seconds; asked at 20."""
    door = await lab.open(Rule("r", algorithm=algorithm, limit="2/minute"))
    for second in (0, 10 if algorithm == "token_bucket" else 20):
        lab.at(second)
        await door.take()
    lab.at(20)
    refused = await door.take()
    assert (refused.retry_after_ms, refused.reset_after_ms) == waits


@every_algorithm
async def test_a_refused_request_charges_no_algorithm(lab: Any, algorithm: str) -> None:
    rules = [
        Rule("tight", match={"path": "/**"}, limit="1/hour"),
        Rule("wide", match={"path": "/**"}, limit="9/hour", algorithm=algorithm, key_by=["ip"]),
    ]
    door = await lab.open(*rules)
    for _ in range(5):
        await door.request(Request(client="acme", ip="192.0.2.7"))
    assert (await door.peek(client="192.0.2.7", rule="wide")).remaining == 8


@every_algorithm
async def test_a_look_spends_nothing_and_knows_the_wait(lab: Any, algorithm: str) -> None:
    door = await lab.open(Rule("r", algorithm=algorithm, limit="2/minute"))
    assert [(await door.peek(2)).remaining for _ in range(3)] == [2, 2, 2]
    await door.take(2)
    looked, asked = await door.peek(), await door.take()
    assert looked.retry_after_ms > 0
    assert looked._replace(source="none") == asked._replace(source="none")


@every_algorithm
async def test_a_reset_brings_everything_back(lab: Any, algorithm: str) -> None:
    door = await lab.open(Rule("r", algorithm=algorithm, limit="2/hour"))
    await door.take(2)
    await door.reset(rule="r")
    assert (await door.take()).remaining == 1


@every_algorithm
async def test_granted_tokens_are_spent_last_and_lapse(lab: Any, algorithm: str) -> None:
    door = await lab.open(Rule("r", algorithm=algorithm, limit="2/hour"))
    await door.take(2)
    assert not (await door.take()).allowed
    assert (await door.grant(3, seconds=60)).remaining == 3
    assert (await door.grant(2, seconds=60)).remaining == 5
    found = [await door.take(2) for _ in range(3)]
    assert [(each.allowed, each.remaining) for each in found] == [(True, 3), (True, 1), (False, 1)]
    lab.advance(60)
    assert not (await door.take()).allowed


@every_algorithm
async def test_a_grant_makes_no_single_cost_possible_that_was_not(lab: Any, algorithm: str) -> None:
    door = await lab.open(Rule("r", algorithm=algorithm, limit="2/hour"))
    await door.grant(100, seconds=60)
    refused = await door.take(3)
    assert (refused.allowed, refused.reason, refused.retry_after_ms) == (False, "exceeds_capacity", None)
    assert [(await door.take(2)).remaining for _ in range(3)] == [100, 98, 96]


async def test_the_largest_grants_stay_exact(lab: Any) -> None:
    door = await lab.open("2/day")
    for _ in range(3):
        granted = await door.grant(10**9, seconds=60)
    assert granted.remaining > 100_000
    assert (await door.take(2)).allowed


@pytest.mark.parametrize(("tokens", "seconds"), [(0, 60), (-5, 60), (1.5, 60), (True, 60), (5, 0), (5, -1), (5, 10**9)])
async def test_grants_that_make_no_sense_are_refused(lab: Any, tokens: Any, seconds: float) -> None:
    door = await lab.open("2/hour", Rule("free", limit="unlimited"), Rule("ban", limit="0/minute"))
    with pytest.raises(UsageError):
        await door.grant(tokens, seconds=seconds)
    for rule in ("free", "ban"):
        with pytest.raises(UsageError, match="no bucket to grant"):
            await door.grant(1, seconds=1, rule=rule)


@every_algorithm
async def test_another_algorithm_is_another_bucket(lab: Any, algorithm: str) -> None:
    door = await lab.open(Rule("r", algorithm=algorithm, limit="5/hour"))
    await door.take(5)
    other = ALGORITHMS[(ALGORITHMS.index(algorithm) + 1) % 4]
    door.use(Rule("r", algorithm=other, limit="5/hour"))
    assert (await door.take()).remaining == 4
    door.use(Rule("r", algorithm=algorithm, limit="5/hour"))
    assert not (await door.take()).allowed


@every_algorithm
async def test_a_changed_limit_keeps_what_was_spent(lab: Any, algorithm: str) -> None:
    door = await lab.open(Rule("r", algorithm=algorithm, limit="10/hour"))
    await door.take(4)
    door.use(Rule("r", algorithm=algorithm, limit="8/hour"))
    expected = 6 if algorithm == "token_bucket" else 4  # tokens that are there stay; so do tokens that are spent
    assert (await door.peek()).remaining == expected


@every_algorithm
async def test_shadow_rules_of_every_algorithm_report_and_stop_nobody(lab: Any, algorithm: str) -> None:
    rules = [
        Rule("real", match={"path": "/**"}, limit="5/minute"),
        Rule("planned", match={"path": "/**"}, limit="2/minute", algorithm=algorithm, mode="shadow"),
    ]
    door = await lab.open(*rules)
    found = [await door.request(Request(client="acme")) for _ in range(4)]
    assert [each.shadow for each in found] == [(), (), ("planned",), ("planned",)]
    assert all(each.allowed for each in found)


async def test_a_month_ends_on_the_last_in_the_zone_of_the_rule(lab: Any) -> None:
    """The lab begins on 15 June 2025, 15:06:40 UTC."""
    door = await lab.open(Rule("r", limit="3/month Europe/Berlin"))
    await door.take(3)
    refused = await door.take()
    until_july_s = 15 * 86_400 + 6 * 3600 + 53 * 60 + 20
    assert refused.retry_after_ms == refused.reset_after_ms == until_july_s * 1000
    lab.at(until_july_s - 0.001)
    assert not (await door.take()).allowed
    lab.at(until_july_s)
    assert (await door.take()).remaining == 2
    assert refused.policy.window_s == 30 * 86_400


async def test_many_questions_are_answered_in_their_order(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="3/hour"), Rule("log", algorithm="sliding_log", limit="2/hour"))
    questions = [("acme", "r"), ("acme", "log", 2), ("acme", "r", 2), ("acme", "r"), ("other", "r"), ("acme", "log")]
    found = await door.many(questions)
    assert [(each.rule, each.allowed, each.remaining) for each in found] == [
        ("r", True, 2),
        ("log", True, 0),
        ("r", True, 0),
        ("r", False, 0),
        ("r", True, 2),
        ("log", False, 0),
    ]


async def test_one_wrong_question_of_many_spends_nothing(lab: Any) -> None:
    door = await lab.open("3/hour")
    with pytest.raises(UsageError, match="there is no rule 'nope'"):
        await door.many([("acme", "r0"), ("acme", "nope")])
    assert (await door.peek()).remaining == 3


async def test_rules_of_one_label_are_decided_in_one_step_and_count_as_ever(lab: Any) -> None:
    rules = [
        Rule("client", match={"path": "/**"}, limit="9/minute", colocate="login"),
        Rule("ip", match={"path": "/**"}, limit="2/minute", key_by=["ip"], colocate="login"),
    ]
    door = await lab.open(*rules)
    request = Request(client="acme", ip="192.0.2.7")
    found = [await door.request(request) for _ in range(3)]
    assert [(each.allowed, each.rule, each.atomic) for each in found] == [
        (True, "ip", True),
        (True, "ip", True),
        (False, "ip", True),
    ]
    assert (await door.peek(rule="client")).remaining == 7
    await door.reset(client="192.0.2.7", rule="ip")
    assert (await door.request(request)).allowed


@valkey_only
async def test_keys_of_one_label_share_their_tag(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="9/minute", colocate="login"), Rule("s", limit="9/minute", key_by=["ip"]))
    for client in ("a", "b", "c"):
        await door.take(client=client, rule="r")
    await door.take(client="192.0.2.7", rule="s")
    tags = {key[: key.index(b"}")] for key in lab.stored()}
    assert (len(lab.stored()), len(tags)) == (4, 2)
