"""How far beyond its limit a rule can go: a number, and what it is made of.

The envelope of a limit of C tokens that come back at r a second: any interval of T seconds admits at most `C + r·T`.
The bound X is how many tokens more that can be, its ratio X/C. It holds for any interval, whatever clients do, under
*one* fault at a time: what is always there adds up, and the worst fault comes on top.

    store answers    0        one step of one server, on its clock
    deny cache       0        it only denies
    leases           β·C      the script never has more than that on loan, all gateways together (`core.lease`)
    end of a window  C        fixed windows only: all of one just before its end, all of the next just after it
    local shares     C·START  what N shares begin with, together; the rest of what they admit is owed (`core.share`)
    saved up         N·a − C  a is what one share has room for: the dearest request at least. Where C < N·a, shares
                              that were saved up for long are together more than a whole bucket; instead of C·START
    failover         0        gateways lower each bucket to what they last saw of it, for the last ten seconds, and drop
                              what they have borrowed; a replica may lag by three
    empty restart    C/10     buckets of a server that forgot begin with a tenth

Each fault comes with an outage, long or short. What the shares admitted in it is owed, and charged to the tenth that
the buckets of an empty server began with, so the two do not add up. In an outage of its own each fault adds once more.

Not in the number, because only a clock, a head count or the demand bounds them: `Bound.besides` says them in words.

- k of N gateways cut off while the others are not: they admit k/N of the limit besides, for as long as it lasts. Those
  that return go on by their shares for a second, and pay ten times in it (`engine.debts`); one that did not decide for
  this client alone does not. So for a second that is so too: `Bound.untold`, and what saved-up shares give away in it.
- More gateways than anybody counted: G instead of N admit G/N of the limit while the store is away.
- After a failover, what a gateway admits before another has told what it last saw there.
- A step of the store's clock by δ: min(C, r·δ) ahead, nothing back.

Concurrency limits are counted in slots. Who holds one keeps it while the store is away, and N parts, each rounded up,
are given out besides.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, NamedTuple

from limen.core.algorithm import AnyLimit
from limen.core.concurrency import SlotLimit
from limen.core.limit import Limit
from limen.core.share import START

__all__ = ["MECHANISMS", "YOUNG", "Bound", "Circumstances", "Mechanism", "Part", "bound_of_limit", "rate_of"]

Mechanism = Literal["window_edge", "lease", "local_share", "empty_restart", "slots"]
MECHANISMS: tuple[Mechanism, ...] = ("window_edge", "lease", "local_share", "empty_restart", "slots")
YOUNG = Fraction(1, 10)
"""What a bucket begins with at a server that has forgotten what was spent."""
UNTOLD_S = 1
"""Seconds for which a gateway goes on by its share when it can ask again (`engine.debts`)."""
SHORTEST = {"hour": Fraction(1, 2), "day": Fraction(23, 24), "week": Fraction(167, 168), "month": Fraction(28, 30)}
"""The shortest window of a calendar, of its usual length: February; and summer time, half an hour on Lord Howe."""


class Circumstances(NamedTuple):
    """What a bound depends on besides the limit."""

    gateways: int = 1
    """N, as the shares are made with it."""
    closed: bool = False
    """Whether the rule answers 503 instead of by a share."""
    lent: int = 0
    """The most tokens that may be on loan at once."""
    dearest: int = 1
    """Tokens that the dearest request costs."""
    shared: bool = True
    """Whether there is a store. Without one a restart forgets everything, and nothing else can fail."""


class Part(NamedTuple):
    """What one mechanism adds."""

    mechanism: Mechanism
    tokens: Fraction
    always: bool
    """Whether it is there without any fault."""
    why: str
    """A sentence for people, without its full stop."""


class Bound(NamedTuple):
    """The bound of one rule."""

    capacity: int
    parts: tuple[Part, ...]
    untold: Fraction = Fraction(0)
    """Tokens that N − 1 gateways admit by their shares, at the rate of the limit, while one is exact again already."""
    besides: tuple[str, ...] = ()
    """Sentences about what no number of tokens bounds."""

    @property
    def tokens(self) -> Fraction:
        """X: everything that is always there, and the worst fault."""
        always = sum((part.tokens for part in self.parts if part.always), Fraction(0))
        return always + max((part.tokens for part in self.parts if not part.always), default=Fraction(0))

    @property
    def ratio(self) -> float:
        """X/C; 0 for a limit of 0, which admits nothing."""
        return float(self.tokens / self.capacity) if self.capacity else 0.0

    def part_ratio(self, mechanism: Mechanism) -> float:
        """What one mechanism adds, of the capacity."""
        found = sum((part.tokens for part in self.parts if part.mechanism == mechanism), Fraction(0))
        return float(found / self.capacity) if self.capacity else 0.0


def bound_of_limit(limit: AnyLimit | SlotLimit, given: Circumstances) -> Bound:
    """The bound of a limit."""
    capacity = limit.capacity
    if not capacity:
        return Bound(0, ())
    if isinstance(limit, SlotLimit):
        parts, untold = _of_slots(capacity, given), Fraction(0)
    else:
        parts, untold = (_edge(limit), _lease(capacity, given), *_faults(limit, given)), _untold(limit, given)
    return Bound(capacity, tuple(part for part in parts if part.tokens), untold, _besides(capacity, untold, given))


def _edge(limit: AnyLimit) -> Part:
    tokens = Fraction(0)
    if limit.algorithm in ("fixed_window", "calendar_window"):
        tokens = limit.capacity * (2 - SHORTEST.get(getattr(limit, "unit", ""), Fraction(1)))
    why = "around the end of a window all of it can pass twice; a token bucket or a sliding log does not do that"
    return Part("window_edge", tokens, True, why)


def _lease(capacity: int, given: Circumstances) -> Part:
    lent = _per_cent(Fraction(given.lent, capacity))
    return Part("lease", Fraction(given.lent), True, f"gateways may have borrowed {lent} of it and not spent it yet")


def _faults(limit: AnyLimit, given: Circumstances) -> tuple[Part, ...]:
    capacity = limit.capacity
    if not given.shared:
        return (Part("empty_restart", Fraction(capacity), False, "a process that restarts has forgotten all buckets"),)
    why = "a server that restarts empty begins all buckets with a tenth"
    return (_share(limit, given), Part("empty_restart", capacity * YOUNG, False, why))


def _share(limit: AnyLimit, given: Circumstances) -> Part:
    if given.closed:
        return Part("local_share", Fraction(0), False, "")
    capacity, gateways = limit.capacity, given.gateways
    room = min(capacity, max(given.dearest, 1, capacity // gateways))
    saved_up = Fraction(gateways * room - capacity)
    if saved_up <= capacity * START:
        why = "when the store goes away the shares of all gateways begin with a tenth"
        return Part("local_share", capacity * START, False, why)
    why = (
        f"while the store is away, {gateways} gateways save up {_tokens(room)} each, the price of one request, "
        f"though their share is {_number(Fraction(capacity, gateways))}"
    )
    return Part("local_share", saved_up, False, why)


def _untold(limit: AnyLimit, given: Circumstances) -> Fraction:
    others = Fraction(given.gateways - 1, given.gateways)
    return Fraction(0) if given.closed or not given.shared else rate_of(limit) * UNTOLD_S * others


def rate_of(limit: AnyLimit) -> Fraction:
    """Tokens a second that come back: the r of the envelope."""
    if isinstance(limit, Limit):
        return limit.refill_per_sec
    window_us: int = limit.window_us  # type: ignore[attr-defined]
    return Fraction(limit.capacity * 1_000_000, window_us)


def _of_slots(capacity: int, given: Circumstances) -> tuple[Part, ...]:
    if not given.shared:
        return ()
    if given.closed:
        why = "a server that restarts empty, or a failover, has forgotten who holds a slot"
        return (Part("slots", Fraction(capacity), False, why),)
    parts = -(-capacity // given.gateways) * given.gateways
    why = "while the store is away slots that are held stay held, and all gateways give out their part besides"
    return (Part("slots", Fraction(parts), False, why),)


def _besides(capacity: int, untold: Fraction, given: Circumstances) -> tuple[str, ...]:
    if not given.shared:
        return ("every process allows the whole limit",)
    share = _per_cent(Fraction(1, given.gateways))
    cut_off = f"each gateway that is cut off alone admits {share} of the limit besides, for as long as that lasts"
    failover = "what passes after a failover until every gateway has told what it last saw"
    clock = f"a step ahead of the store's clock gives what would have grown meanwhile, {_tokens(capacity)} at most"
    if given.closed:
        return (failover, clock)
    if not untold:
        return (cut_off, failover, clock)
    told = f"what others admit in the second before they are exact again, {_number(untold)} tokens by the rate at most"
    return (cut_off, told, failover, clock)


def _per_cent(part: Fraction) -> str:
    return f"{float(part * 100):.3g} %"


def _number(tokens: Fraction) -> str:
    return f"{float(tokens):.6g}"


def _tokens(count: int) -> str:
    return f"{count} token{'s' if count != 1 else ''}"
