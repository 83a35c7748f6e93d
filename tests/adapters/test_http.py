"""The fields say what the decision says, in every dialect, and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import http_sf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.adapters.http import DEFAULT_DIALECTS, denial, dialects, rate_fields, retry_after_s
from limen.core.decision import Decision, Policy
from limen.errors import UsageError

BOTH = dialects(DEFAULT_DIALECTS)


def decision(allowed: bool = True, **changes: Any) -> Decision:
    plain = Decision(allowed, 100, 50, 0, 29_400, "internal-id", "allowed", "store", policy=Policy("search", 100, 60))
    if not allowed:
        plain = plain._replace(remaining=0, retry_after_ms=28_000, reset_after_ms=60_000, reason="over_limit")
    return plain._replace(**changes)


names = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=64)
policies = st.builds(Policy, names, st.integers(0, 10**9), st.none() | st.integers(1, 10**9))
waits = st.none() | st.integers(0, 10**12)


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    policy = draw(policies)
    allowed = draw(st.booleans())
    retry, reset = draw(waits), draw(waits)
    if retry is not None and reset is not None:
        reset = max(retry, reset)
    return Decision(
        allowed,
        policy.quota,
        draw(st.none() | st.integers(0, policy.quota)),
        0 if allowed else retry,
        reset,
        "internal-id",
        "allowed" if allowed else "over_limit",
        "store",
        policy=policy,
    )


@given(decisions())
def test_a_structured_field_parser_reads_what_was_meant(given: Decision) -> None:
    fields = dict(rate_fields(given, dialects(["ietf-11"])))
    policy = given.policy
    assert policy is not None
    wanted = {"q": policy.quota} if policy.window_s is None else {"q": policy.quota, "w": policy.window_s}
    assert http_sf.parse(fields["ratelimit-policy"].encode(), tltype="list") == [(policy.name, wanted)]
    if given.remaining is None:
        assert "ratelimit" not in fields
        return
    ((name, shown),) = http_sf.parse(fields["ratelimit"].encode(), tltype="list")  # type: ignore[misc]
    assert name == policy.name
    assert shown["r"] == given.remaining
    window = given.reset_after_ms if given.allowed or given.retry_after_ms is None else given.retry_after_ms
    assert shown.get("t") == (None if window is None else -(-window // 1000))


@given(decisions(), st.floats(0, 1, exclude_max=True), st.sampled_from(["ietf-11", "legacy", "github"]))
def test_no_field_is_negative_and_retry_after_is_never_before_the_effective_window(
    given: Decision, jitter: float, dialect: str
) -> None:
    fields = rate_fields(given, dialects([dialect]), now_s=1_800_000_000.5)
    counts = [value for name, value in fields if name.startswith("x-") and name != "x-ratelimit-resource"]
    assert all(value.isdecimal() for value in counts)
    wait = retry_after_s(given, jitter)
    if wait is None:
        assert given.allowed or given.retry_after_ms is None
        return
    assert given.retry_after_ms is not None
    least = max(1, -(-given.retry_after_ms // 1000))
    assert least <= wait <= least + given.retry_after_ms / 10_000
    shown = dict(fields).get("ratelimit")
    if shown:
        assert http_sf.parse(shown.encode(), tltype="list")[0][1]["t"] <= wait  # type: ignore[index]


def test_default_dialects_give_five_fields() -> None:
    assert rate_fields(decision(), BOTH) == [
        ("ratelimit", '"search";r=50;t=30'),
        ("ratelimit-policy", '"search";q=100;w=60'),
        ("x-ratelimit-limit", "100"),
        ("x-ratelimit-remaining", "50"),
        ("x-ratelimit-reset", "30"),
    ]


def test_github_counts_in_epoch_seconds() -> None:
    assert rate_fields(decision(), dialects(["github"]), now_s=1_800_000_000.7) == [
        ("x-ratelimit-limit", "100"),
        ("x-ratelimit-remaining", "50"),
        ("x-ratelimit-reset", "1800000031"),
        ("x-ratelimit-used", "50"),
        ("x-ratelimit-resource", "search"),
    ]


def test_none_and_decisions_without_a_limit_give_no_field() -> None:
    assert rate_fields(decision(), dialects(["none"])) == []
    assert rate_fields(Decision(True, None, None, 0, None, None, "allowed", "none"), BOTH) == []


def test_a_quota_that_never_refills_names_no_window_and_no_reset() -> None:
    spent = decision(False, retry_after_ms=None, reset_after_ms=None, policy=Policy("trial", 100, None))
    assert rate_fields(spent, BOTH) == [
        ("ratelimit", '"trial";r=0'),
        ("ratelimit-policy", '"trial";q=100'),
        ("x-ratelimit-limit", "100"),
        ("x-ratelimit-remaining", "0"),
    ]
    assert "retry-after" not in dict(denial(spent, BOTH).headers)


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["ietf-12"], "no dialect 'ietf-12'"),
        (["none", "legacy"], "stands alone"),
        (["legacy", "github"], "different meanings"),
    ],
)
def test_dialects_that_cannot_be_are_refused(names: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        dialects(names)


def test_retry_after_is_rounded_up_and_at_least_one() -> None:
    assert retry_after_s(decision(False, retry_after_ms=1)) == 1
    assert retry_after_s(decision(False, retry_after_ms=0)) == 1
    assert retry_after_s(decision(False, retry_after_ms=1001)) == 2
    assert retry_after_s(decision()) is None


def told(wait_ms: int) -> dict[int | None, int]:
    """What is told at each per cent of the chance, and how often."""
    return Counter(retry_after_s(decision(False, retry_after_ms=wait_ms), step / 100) for step in range(100))


def test_jitter_spreads_long_waits_over_a_tenth_and_never_shortens() -> None:
    assert told(100_000).keys() == set(range(100, 111))
    assert max(told(100_000).values()) <= 10, "all alike"
    assert told(30_000) == {30: 25, 31: 25, 32: 25, 33: 25}


def test_short_waits_are_told_as_they_are() -> None:
    assert told(10_000) == {10: 50, 11: 50}
    assert told(9999) == {10: 100}
    assert told(1000) == {1: 100}


def test_a_denial_is_a_problem_with_public_names_only() -> None:
    status, headers, body = denial(decision(False), BOTH)
    found = dict(headers)
    assert status == 429
    assert found["retry-after"] == "28"
    assert found["content-type"] == "application/problem+json"
    assert found["content-length"] == str(len(body))
    assert json.loads(body) == {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Too Many Requests",
        "status": 429,
        "detail": "The limit is used up for now.",
        "violated-policies": ["search"],
    }
    assert "internal-id" not in f"{headers}{body!r}"


def test_undecided_is_503_with_retry_after_and_without_numbers() -> None:
    undecided = Decision(
        False, None, None, 1000, None, "internal-id", "store_unavailable", "none", True, policy=Policy("search", 9, 60)
    )
    status, headers, body = denial(undecided, BOTH)
    assert status == 503
    assert dict(headers)["retry-after"] == "1"
    assert json.loads(body)["type"].endswith("#temporary-reduced-capacity")
    assert not any("ratelimit" in name for name, _ in headers)


def test_a_name_made_by_hand_cannot_break_out_of_its_field() -> None:
    fields = rate_fields(decision(policy=Policy('a"\r\nx: y\\é', 1, 1)), dialects(["ietf-11", "github"]))
    assert all(sign not in value for _, value in fields for sign in "\r\né")
    assert http_sf.parse(dict(fields)["ratelimit"].encode(), tltype="list")[0][0] == 'a"??x: y\\?'  # type: ignore[index]
