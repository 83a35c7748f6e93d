"""A limit of a client's own: of the same kind as the rule's, and in the same bucket."""

from __future__ import annotations

import pytest

from limen import Rule, UsageError
from limen.core.decision import Policy
from limen.rules.override import overridden, overridden_for

SEARCH = Rule("search", limit="100/minute", public_name="Search", lease="auto", cost=5)


def test_everything_but_the_limit_stays() -> None:
    own = overridden(SEARCH, "500/minute")
    assert (own.id, own.cost, own.key_by, own.lease, own.on_failure) == (
        SEARCH.id, SEARCH.cost, SEARCH.key_by, SEARCH.lease, SEARCH.on_failure,
    )  # fmt: skip
    assert own.policy == Policy("Search", 500, 60)
    assert SEARCH.policy == Policy("Search", 100, 60)
    assert SEARCH.limit != own.limit


@pytest.mark.parametrize(
    ("limit", "algorithm", "own"),
    [
        ("100/minute", "fixed_window", "500/minute"),
        ("100/minute", "sliding_window", "5/second"),
        ("100/minute", "sliding_log", "50/hour"),
        ("100000/month", None, "1/year Europe/Berlin"),
        ("10 concurrent", None, "20 concurrent"),
        ("unlimited", None, "1/second"),
        ("100/minute", None, "unlimited"),
        ("100/minute", "fixed_window", "0/minute"),
    ],
)
def test_a_limit_counts_as_that_of_its_rule(limit: str, algorithm: str | None, own: str) -> None:
    rule = Rule("r", limit=limit, algorithm=algorithm)
    found = overridden(rule, own).limit
    assert rule.limit is None or found is None or found.algorithm == rule.limit.algorithm


@pytest.mark.parametrize(
    ("rule", "own", "why"),
    [
        (Rule("r", limit="100/minute"), "5/fortnight", "not a unit"),
        (Rule("r", limit="100/minute"), "10 concurrent", "concurrency"),
        (Rule("r", limit="100/minute"), "1000/month", "calendar|fixed_window"),
        (Rule("r", limit="1000/month"), "100/minute", "same kind"),
        (Rule("r", limit="10 concurrent"), "100/minute", "concurrent"),
        (SEARCH, "4/minute", "can never pass"),
    ],
)
def test_what_cannot_be_the_limit_of_this_rule_is_refused(rule: Rule, own: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        overridden(rule, own)


@pytest.mark.parametrize(
    ("key_by", "client", "plan"),
    [
        (["client"], True, True),
        (["client", "ip"], True, True),
        (["user"], False, True),
        (["plan"], False, True),
        (["ip"], False, False),
        ([], False, False),
    ],
)
def test_nobody_gets_a_limit_on_a_bucket_that_others_share(key_by: list[str], client: bool, plan: bool) -> None:
    rule = Rule("r", limit="100/minute", key_by=key_by)
    for by, can in (("client", client), ("plan", plan)):
        if can:
            assert overridden_for(rule, by, "5/minute").limit  # type: ignore[arg-type]
        else:
            with pytest.raises(UsageError, match="counts by"):
                overridden_for(rule, by, "5/minute")  # type: ignore[arg-type]
