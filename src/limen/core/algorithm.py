"""What every algorithm answers, so that stores and the engine need not know which one counts.

An algorithm is an immutable object that holds the numbers of one limit. It works on two kinds of value:

    state   what a store keeps for one client: immutable, made and read by the algorithm alone
    seen    what was found there at one instant: `seen[0]`, or the int itself, is what can be spent; the rest tells
            how long until more can be. It is all that a decision needs, and all that goes over a wire.

Everything is integers, and time is microseconds of the clock of whoever keeps the state.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Protocol

from limen.core.limit import Limit

__all__ = ["ALGORITHMS", "AnyLimit", "Seen"]

ALGORITHMS = ("token_bucket", "fixed_window", "calendar_window", "sliding_window", "sliding_log")

Seen = Any
"""`int` ticks for the token bucket, else a tuple of ints whose first is whole tokens."""


class AnyLimit(Protocol):
    """The numbers of a limit and the arithmetic that goes with them."""

    algorithm: ClassVar[str]
    """Names the kind of state: buckets of different kinds are different buckets."""

    @property
    def capacity(self) -> int:
        """The most tokens that can be spent at once."""

    @property
    def window_s(self) -> int | None:
        """Seconds over which the capacity is meant, rounded up; None when it never comes back."""

    def allows(self, seen: Seen, cost: int) -> bool:
        """Whether `cost` tokens are there."""

    def remaining(self, seen: Seen) -> int:
        """Whole tokens that are there."""

    def after(self, seen: Seen, cost: int) -> Seen:
        """What will be seen once `cost` tokens are taken."""

    def retry_after_us(self, seen: Seen, cost: int) -> int | None:
        """Until `cost` tokens are there, if nobody else takes any: 0 when they are, None for never."""

    def reset_after_us(self, seen: Seen) -> int | None:
        """Until everything is there again; None for never. The state says nothing any more from then on."""

    def later(self, seen: Seen, us: int, cost: int, refused: int) -> Seen | None:
        """The most that can be seen `us` after a refusal of `refused` tokens, or None if it may not deny `cost`."""

    def raised(self, seen: Seen, tokens: int) -> Seen:
        """The same with that many tokens more."""

    def share(self, parts: int, start: Fraction, at_least: int = 1) -> Limit:
        """What one of `parts` gateways may admit on its own: a token bucket (`core.limit.Limit.share`)."""

    def look(self, state: Any, now_us: int, cost: int) -> Seen:
        """What is there; `cost` is what the caller is about to ask for. `state` is None for a new client."""

    def spend(self, state: Any, now_us: int, cost: int) -> Any:
        """The state once `cost` tokens, which are there, are taken. A cost of 0 settles it at this instant."""

    def stepped_back(self, state: Any, now_us: int) -> bool:
        """Whether the state lies in the future: it is settled at once, or the client would wait for that future."""
