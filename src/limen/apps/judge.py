"""`python -m limen.apps.judge`: replays a sample under two sets of rules; asked by `judging`, which starts it.

Reads pickles from the process that started it, which is this program too: (secret, chunks, seconds), then lists of
documents of the rules before, of those after, and of overrides, each up to an empty list. Prints an effect as JSON.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Any

from limen.errors import UsageError
from limen.rules.effect import Effect, effect_to_document
from limen.rules.model import Rule
from limen.rules.ruleset import RuleSet
from limen.rules.standing import Override
from limen.sim.blind import blinded, blinded_overrides
from limen.sim.chunk import decode
from limen.sim.preview import Traced, compare
from limen.sim.pseudonyms import Pseudonyms

__all__ = ["judge", "main"]

Documents = Iterable[Mapping[str, Any]]


TRIED = 2_000
"""Of so many requests the pace is taken."""


def judge(
    secret: bytes,
    before: Documents,
    after: Documents,
    chunks: Sequence[bytes],
    overrides: Sequence[Override] = (),
    budget_s: float = inf,
) -> Effect:
    """What going from one set of rules to the other would have done to sampled requests.

    Args:
        secret: of the deployment.
        before, after: the rules.
        chunks: the sample.
        overrides: limits that single clients and plans have.
        budget_s: about how long it may take; when there are more requests than that, the newest are tried.

    Raises:
        UsageError: a chunk cannot be read, or they were all made under another secret.
    """
    pseudonyms = Pseudonyms(secret)
    traced = sorted(chain.from_iterable(decode(chunk, pseudonyms) for chunk in chunks), key=lambda each: each.at_us)
    if chunks and not traced:
        raise UsageError("the sample was made under another secret; set LIMEN_SECRET as the gateways have it")
    standing = blinded_overrides(overrides, pseudonyms) if overrides else None
    made: dict[str, Rule] = {}
    rules = _blinded(before, pseudonyms, made), _blinded(after, pseudonyms, made)
    return compare(*rules, _newest(traced, *rules, budget_s), standing)


def main() -> None:
    gc.disable()  # nothing here is part of a cycle, and this process ends soon
    with contextlib.suppress(OSError, AttributeError):
        os.nice(1)  # others are served on this machine, and somebody waits for this too
    secret, chunks, budget_s = pickle.load(sys.stdin.buffer)
    before, after, overrides = (list(_read_parts()) for _ in range(3))
    json.dump(effect_to_document(judge(secret, before, after, chunks, overrides, budget_s)), sys.stdout)


def _read_parts() -> Iterator[Any]:
    """What `judging` wrote in parts, to the empty one."""
    while part := pickle.load(sys.stdin.buffer):
        yield from part


def _newest(traced: Sequence[Traced], before: RuleSet, after: RuleSet, budget_s: float) -> Sequence[Traced]:
    """As many of the newest as can be tried in time, by how long some of them take."""
    if budget_s == inf or len(traced) <= TRIED:
        return traced
    began = time.perf_counter()
    compare(before, after, traced[-TRIED:])
    took_s = time.perf_counter() - began
    return traced[-max(TRIED, int(TRIED * budget_s / took_s)) :]


def _blinded(documents: Documents, pseudonyms: Pseudonyms, made: dict[str, Rule]) -> RuleSet:
    """A set in which rules that are as in the other are those of the other."""
    rules = []
    for document in documents:
        text = repr(document)
        if text not in made:
            made[text] = blinded(Rule(**document), pseudonyms)
        rules.append(made[text])
    return RuleSet(rules)


if __name__ == "__main__":
    main()
