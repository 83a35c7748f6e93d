"""Many questions at once, each decided for itself: one write and one wait for each node, whatever their number."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from limen.errors import StoreError
from limen.stores.base import Op
from limen.stores.valkey.script import Commands
from limen.stores.valkey.sync_asking import Asking
from limen.stores.valkey.sync_node import SyncNode
from limen.stores.valkey.sync_pile import Answer, Pile, Question, asked

__all__ = ["take_each"]

AT_ONCE = 512
"""The most questions that are under way on one connection: what they and their answers take fits its buffers."""


def take_each(asking: Asking, commands: Commands, questions: Sequence[Sequence[Op]]) -> list[Answer]:
    """What was found for each question, whose keys are in one slot, or why there is no answer."""
    answers: list[Answer] = [StoreError("not asked", "down")] * len(questions)
    for begin in range(0, len(questions), AT_ONCE):
        _take_some(asking, commands, questions, range(begin, min(begin + AT_ONCE, len(questions))), answers)
    return answers


def _take_some(
    asking: Asking, commands: Commands, questions: Sequence[Sequence[Op]], places: range, answers: list[Answer]
) -> None:
    until = monotonic() + asking.deadline_s
    piles: dict[SyncNode, Pile] = {}
    for place in places:
        ops = questions[place]
        try:
            node = asking.nodes.node_of(commands.names.key(ops[0].identity, ops[0].colocate))
        except StoreError as error:
            answers[place] = error
        else:
            many_keys = len({(op.identity, op.colocate) for op in ops}) > 1
            command = asking.memory.commands(commands, node.shard, ops).take(ops)
            question = Question(place, ops, command, many_keys)
            piles.setdefault(node, Pile(asking, node, until)).add(question)
    with asked(list(piles.values()), answers):
        pass  # nothing is to be sent behind an answer that is owed
