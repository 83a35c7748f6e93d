"""The bound of a rule, from what its author wrote."""

from __future__ import annotations

from typing import Any

import pytest

from limen.rules.bound import bound_of, bound_to_document, bound_to_lines
from limen.rules.model import Rule


@pytest.mark.parametrize(
    ("fields", "gateways", "ratio"),
    [
        ({"limit": "100/minute"}, 4, 0.1),
        ({"limit": "100/minute", "on_failure": "closed"}, 4, 0.1),
        ({"limit": "10000/minute", "lease": "auto"}, 4, 0.13),
        ({"limit": "100/minute", "lease": "auto"}, 4, 0.1),  # too small to lend: never leased
        ({"limit": "10000/minute", "lease": {"size": 50}}, 4, 0.2),
        ({"limit": "100/minute", "cost": {"default": 1, "when": [{"path": "/deep", "cost": 50}]}}, 4, 1.0),
        ({"limit": "2/minute"}, 100, 49.0),
        ({"limit": "2/minute", "on_failure": "closed"}, 100, 0.1),
        ({"limit": "100/minute", "algorithm": "fixed_window"}, 4, 1.1),
        ({"limit": "100/minute", "algorithm": "sliding_window"}, 4, 0.1),
        ({"limit": "100/minute", "algorithm": "sliding_log"}, 4, 0.1),
        ({"limit": "10 concurrent"}, 4, 1.2),
        ({"limit": 0}, 4, 0.0),
    ],
)
def test_each_rule_has_a_number(fields: dict[str, Any], gateways: int, ratio: float) -> None:
    bound = bound_of(Rule("r", **fields), gateways)
    assert bound is not None
    assert bound.ratio == pytest.approx(ratio)


@pytest.mark.parametrize("fields", [{"limit": "unlimited"}, {"limit": "9/day", "mode": "shadow"}])
def test_what_holds_nobody_to_a_limit_has_none(fields: dict[str, Any]) -> None:
    assert bound_of(Rule("r", **fields)) is None


def test_memory_says_that_a_restart_forgets_everything() -> None:
    bound = bound_of(Rule("r", limit="100/minute"), shared=False)
    assert bound is not None
    assert (bound.ratio, bound.besides) == (1.0, ("every process allows the whole limit",))


def test_it_is_told_in_json_and_in_lines() -> None:
    bound = bound_of(Rule("r", limit="10000/minute", lease="auto"), 4)
    assert bound is not None
    document = bound_to_document(bound, 4)
    assert (document["ratio"], document["tokens"], document["gateways"]) == (pytest.approx(0.13), 1300, 4)
    assert [part["mechanism"] for part in document["parts"]] == ["lease", "local_share", "empty_restart"]
    assert (len(document["besides"]), document["untold"]) == (4, 125)
    lines = bound_to_lines(bound, 4)
    assert lines[0] == "over the limit by at most 0.13 of it, 1300 tokens, with 4 gateways"
    assert lines[1] == "  always  300  gateways may have borrowed 3 % of it and not spent it yet"
    assert len(lines) == 1 + len(document["parts"]) + len(document["besides"])
