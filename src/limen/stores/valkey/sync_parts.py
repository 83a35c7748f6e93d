"""A request whose buckets lie in several slots of a cluster: each slot decides for itself, and all or none are charged.

Every part is sent before the first answer is read. When another part denies, or fails, what was taken is given back,
on the connection that took it where its answer did not come: so it cannot be given back before it is taken.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from secrets import token_bytes
from time import monotonic

from limen.core.algorithm import Seen
from limen.errors import StoreError
from limen.stores.valkey.script import Commands, parse_seen
from limen.stores.valkey.split import KeysApart, Outcome, Part, by_key, give_back, looking, merged, passed, spends
from limen.stores.valkey.sync_asking import Asking
from limen.stores.valkey.sync_node import SyncNode
from limen.stores.valkey.sync_pile import Pile, Question, asked

__all__ = ["take_by_key", "take_in_parts"]

log = logging.getLogger("limen.store")


def take_in_parts(asking: Asking, commands: Commands, parts: Sequence[Part]) -> list[Seen]:
    """What was found, in the order of the request.

    Raises:
        StoreError: a part failed; what others took was given back.
    """
    undo = token_bytes(16) if any(map(spends, parts)) else b""
    until = monotonic() + asking.deadline_s
    outcomes: list[Outcome] = [StoreError("not asked", "down")] * len(parts)
    piles = _piles(asking, commands, parts, undo, until, outcomes)
    with asked(list(dict.fromkeys(piles.values())), outcomes):
        outcomes = _moving_last(asking, commands, parts, outcomes, until)
        taken = give_back(parts, outcomes) if undo else {}
        behind = [at for at in taken if at in piles and piles[at].owes]
        for at in behind:
            _tell(piles[at], commands.undo(parts[at].ops, undo, taken[at]))
    for at in taken:
        if at not in behind and not isinstance(outcomes[at], StoreError):
            _undo(asking, commands, parts[at], commands.undo(parts[at].ops, undo, taken[at]))
    return merged(parts, [_seen(outcome) for outcome in outcomes], sum(len(part.ops) for part in parts))


def _piles(
    asking: Asking, commands: Commands, parts: Sequence[Part], undo: bytes, until: float, outcomes: list[Outcome]
) -> dict[int, Pile]:
    """For each part the pile of its node; what has no node is not there, and its outcome says why."""
    by_node: dict[SyncNode, Pile] = {}
    piles: dict[int, Pile] = {}
    for at, part in enumerate(parts):
        try:
            node = asking.nodes.node_of(_key(commands, part))
        except StoreError as error:
            outcomes[at] = error
        else:
            piles[at] = by_node.setdefault(node, Pile(asking, node, until))
            command = asking.memory.commands(commands, node.shard, part.ops).take(part.ops, undo)
            piles[at].add(Question(at, part.ops, command, many_keys=True))
    return piles


def _tell(pile: Pile, undo: bytes) -> None:
    """Give back behind a take whose answer nobody will read."""
    try:
        pile.tell(undo)
    except StoreError as error:
        log.warning("what was taken may not be given back: %s", error)


def _undo(asking: Asking, commands: Commands, part: Part, undo: bytes) -> None:
    try:
        asking.ask(_key(commands, part), undo)
    except StoreError as error:
        log.warning("what was taken may not be given back: %s", error)


def _key(commands: Commands, part: Part) -> bytes:
    return commands.names.key(part.ops[0].identity, part.ops[0].colocate)


def take_by_key(asking: Asking, commands: Commands, part: Part, until: float) -> list[Seen]:
    """The same for keys of one slot that is being moved, which decides about single keys only.

    What was taken before another key denied is not given back: a record of it would be a second key.
    """
    pieces = by_key(part, lambda op: commands.names.key(op.identity, op.colocate))
    seens: list[Sequence[Seen]] = []
    for piece in pieces:
        if not all(passed(each.ops, seen) for each, seen in zip(pieces, seens, strict=False)):
            piece = looking(piece)
        seens.append(parse_seen(asking.ask(_key(commands, piece), commands.take(piece.ops), until), piece.ops))
    order = [place for piece in pieces for place in piece.at]
    found = dict(zip(order, [each for seen in seens for each in seen], strict=True))
    return [found[place] for place in part.at]


def _moving_last(
    asking: Asking, commands: Commands, parts: Sequence[Part], outcomes: list[Outcome], until: float
) -> list[Outcome]:
    """The outcomes, when what lies in a slot that is being moved was asked too: last, for it cannot be given back."""
    rest = [(part, each) for part, each in zip(parts, outcomes, strict=True) if not isinstance(each, KeysApart)]
    allowed = all(not isinstance(each, StoreError) and passed(part.ops, each) for part, each in rest)
    for at, part in enumerate(parts):
        if isinstance(outcomes[at], KeysApart):
            try:
                outcomes[at] = take_by_key(asking, commands, part if allowed else looking(part), until)
            except StoreError as error:
                outcomes[at] = error
    return outcomes


def _seen(outcome: Outcome) -> Sequence[Seen]:
    if isinstance(outcome, StoreError):
        raise outcome
    return outcome
