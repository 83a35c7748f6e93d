"""One request whose buckets lie in several slots of a cluster. Pure: nothing here sends or waits.

One script decides about one slot, at one instant. A request that concerns several slots is asked in parts, all at
once; each part takes what it finds. When another part denies, or fails, what was taken is given back: the request is
charged everywhere or nowhere. In between others may see less than there is, never more: it errs to the strict side.
Candidates stay charged when only the limit beside them refused, in whichever part it did.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from limen.core.algorithm import Seen
from limen.errors import StoreError
from limen.stores.base import Op, bucket_name

__all__ = ["KeysApart", "Outcome", "Part", "by_key", "give_back", "looking", "merged", "passed", "spends", "split"]

UNCERTAIN = ("timeout", "down")
"""Kinds of failure after which nobody knows whether the script ran. Other failures are refusals: it did not."""

Outcome = Sequence[Seen] | StoreError
"""What came of a part."""

UNDECIDED = "\0undecided"
"""Stands among the buckets that refuse for a part of which nobody knows which do. No bucket has this name."""


class KeysApart(StoreError):
    """The keys of one script are at two nodes: it has to be asked for each key alone. Nothing was taken."""


class Part(NamedTuple):
    """Operations that one script decides."""

    slot: int
    at: tuple[int, ...]
    """Their places in the request."""
    ops: tuple[Op, ...]


def split(ops: Sequence[Op], slot_of_op: Callable[[Op], int]) -> list[Part]:
    """The parts of a request, one for each slot, in order of appearance."""
    slots = [slot_of_op(op) for op in ops]
    return [Part(slots[at[0]], at, tuple(ops[place] for place in at)) for at in _places(slots)]


def by_key(part: Part, key_of_op: Callable[[Op], bytes]) -> list[Part]:
    """A part cut once more, into one for each key: a slot that is being moved decides only about single keys."""
    groups = _places([key_of_op(op) for op in part.ops])
    return [Part(part.slot, tuple(part.at[i] for i in group), tuple(part.ops[i] for i in group)) for group in groups]


def passed(ops: Iterable[Op], seen: Iterable[Seen]) -> bool:
    """Whether every enforced operation found its cost; only then something was taken."""
    return all(op.limit.allows(found, op.cost) for op, found in zip(ops, seen, strict=True) if op.enforce)


def spends(part: Part) -> bool:
    """Whether the part can take anything."""
    return any(op.spend and op.cost for op in part.ops)


def looking(part: Part) -> Part:
    """The same question, taking nothing."""
    return part._replace(ops=tuple(op._replace(spend=False) for op in part.ops))


def merged(parts: Sequence[Part], seens: Sequence[Sequence[Seen]], count: int) -> list[Seen]:
    """What was found in each bucket, in the order of the request."""
    found: list[Seen] = [0] * count
    for part, seen in zip(parts, seens, strict=True):
        for place, each in zip(part.at, seen, strict=True):
            found[place] = each
    return found


def give_back(parts: Sequence[Part], outcomes: Sequence[Outcome]) -> dict[int, list[Op]]:
    """Which parts took what the request as a whole does not take, or may have: by their index, and what they keep."""
    refusing = [_refusing(part, outcome) for part, outcome in zip(parts, outcomes, strict=True)]
    anywhere = set[str]().union(*refusing)
    if not anywhere:
        return {}
    back: dict[int, list[Op]] = {}
    for at, part in enumerate(parts):
        kept = [op for op in part.ops if _stands(op, anywhere)]
        if len(kept) < len(_may_have_taken(part, outcomes[at], refusing[at])):
            back[at] = kept
    return back


def _refusing(part: Part, outcome: Outcome) -> set[str]:
    """The buckets that refuse the request."""
    if isinstance(outcome, StoreError):
        return {UNDECIDED}
    return {_bucket(op) for op, seen in zip(part.ops, outcome, strict=True) if not passed([op], [seen])}


def _may_have_taken(part: Part, outcome: Outcome, refusing: set[str]) -> Sequence[Op]:
    """What the script of a part took where there was enough: what it keeps of this is in it too."""
    if isinstance(outcome, StoreError):
        return part.ops if outcome.kind in UNCERTAIN else ()
    return [op for op in part.ops if _stands(op, refusing)]


def _stands(op: Op, refusing: set[str]) -> bool:
    """Whether an operation is taken although these refuse; a candidate heeds all but the limit that it is beside."""
    return refusing <= {op.beside}


def _bucket(op: Op) -> str:
    return bucket_name(op.rule, op.limit.algorithm)


def _places(labels: Sequence[Hashable]) -> list[tuple[int, ...]]:
    """The places of each label, in order of appearance."""
    groups: dict[Hashable, list[int]] = {}
    for place, label in enumerate(labels):
        groups.setdefault(label, []).append(place)
    return [tuple(places) for places in groups.values()]
