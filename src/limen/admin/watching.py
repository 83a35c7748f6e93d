"""Whether a change does what it was predicted to do: live counts against a prediction. Pure.

What is compared is the share of all requests that are newly denied. Live nobody knows what the rules before would have
said, so it is how much the share of denied requests has grown: of those that the rules denied that were changed, and of
those that any rule denied, whichever grew less. The former alone would count a request that another rule denied before;
the latter alone would count what happens to others.

Requests of one client come in bursts and are denied in bursts, so counts say less than as many independent ones would:
`SPREAD` times as wide. A change is taken back when all but one chance in a thousand speaks for it, not before.
"""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["ENOUGH", "Seen", "Tally", "newly_denied", "tolerated"]

ENOUGH = 100
"""Fewer requests say nothing."""
SIGMAS = 3.0
SPREAD = 2.0


class Tally(NamedTuple):
    """What gateways counted."""

    requests: int
    touched: int
    """Of these, denied by the rules that the change touches."""
    denied: int
    """Denied by any rule."""


class Seen(NamedTuple):
    """How much of the traffic is newly denied, of all requests: 0 to 1, or less when fewer are denied than before."""

    ratio: float
    at_least: float
    """It is certain that it is so much."""


def tolerated(predicted: float, percent: float) -> float:
    """The newly denied share up to which a change stays: `percent` points more than predicted, or half as much again.

    Examples: 0.01 of 0 predicted; 0.3 of 0.2 predicted, with 1 %.
    """
    return predicted + max(percent / 100, predicted / 2)


def newly_denied(before: Tally, since: Tally, denied_before: float) -> Seen | None:
    """What is known of a change.

    Args:
        before: in the minutes before it was in force.
        since: by those who have it.
        denied_before: the share of denied requests before, as the prediction has it: where nobody counted enough.

    Returns None while too few requests were counted.
    """
    if since.requests < ENOUGH:
        return None
    grown = [
        _grown(before.requests, before.touched, since.requests, since.touched, denied_before),
        _grown(before.requests, before.denied, since.requests, since.denied, denied_before),
    ]
    return Seen(min(each.ratio for each in grown), min(each.at_least for each in grown))


def _grown(requests_before: int, denied_before: int, requests: int, denied: int, otherwise: float) -> Seen:
    counted = requests_before >= ENOUGH
    was = denied_before / requests_before if counted else otherwise
    unsure = math.hypot(_deviation(requests, denied), _deviation(requests_before, denied_before) if counted else 0.0)
    ratio = denied / requests - was
    return Seen(ratio, ratio - SIGMAS * SPREAD * unsure)


def _deviation(requests: int, denied: int) -> float:
    """The standard deviation of a share, with one of each more than were counted: none and all are not certain."""
    share = (denied + 1) / (requests + 2)
    return math.sqrt(share * (1 - share) / requests)
