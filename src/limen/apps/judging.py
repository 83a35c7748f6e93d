"""Who knows what a change of rules would have done to the traffic of the last hours.

The traffic is replayed in a process of its own: it takes seconds of computing, and the service answers others
meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from limen.admin.background import in_background
from limen.admin.records import StoredClient
from limen.admin.repository import Repository
from limen.admin.standing_records import merged
from limen.errors import LimenError, RulesUnavailable, UsageError
from limen.rules.effect import Affected, Effect
from limen.rules.ruleset import RuleSet
from limen.rules.standing import Override, Standing
from limen.sim.pseudonyms import Pseudonyms

__all__ = ["Judging", "judge_by_log"]

MOST_ROWS = 200_000
BUDGET_S = 3.0
"""How long a replay may take; of a larger sample the newest part is tried."""
PART = 100
PATIENCE_S = 18.0
"""The longest that it is waited for on a machine that is busy."""


class Judging:
    """`await judging(before, after)`: the effect on the traffic that was sampled; None when none was.

    Args:
        repository: the rules database with the sample.
        most: how many requests are tried at most, the newest.

    Raises on the call:
        RulesUnavailable: the database does not answer, or the replay takes too long.
        UsageError: the sample cannot be read.
    """

    def __init__(self, repository: Repository, most: int = MOST_ROWS) -> None:
        self._repository = repository
        self._most = most

    async def __call__(self, before: RuleSet, after: RuleSet) -> Effect | None:
        chunks = await self._repository.samples.newest(self._most)
        if not chunks:
            return None
        secret = (await self._repository.secrets()).current
        question = await in_background(_question, secret, before, after, chunks, await self._overrides())
        effect = effect_from(json.loads(await _asked(question)))
        return await self._with_names(effect, Pseudonyms(secret)) if effect.requests else None

    async def _overrides(self) -> list[Override]:
        """Limits that clients and plans have now: they had them before and will have them after."""
        now = time.time()
        found = await self._repository.standing.changes(0, int(now))
        return list(merged(Standing(), found.rows, now)[0].entries()[2])

    async def _with_names(self, effect: Effect, pseudonyms: Pseudonyms) -> Effect:
        """The effect with the names of those who are known to the database."""
        if not effect.most:
            return effect
        clients = (await self._repository.snapshot()).clients
        known = await in_background(_known, {each.client for each in effect.most}, clients, pseudonyms)
        return effect._replace(
            most=tuple(each._replace(client=known.get(each.client, each.client)) for each in effect.most)
        )


def judge_by_log(logs: Sequence[Path]) -> Callable[[RuleSet, RuleSet], Awaitable[Effect | None]]:
    """The same by access logs, which may be large and take as long as they take."""

    async def judge(before: RuleSet, after: RuleSet) -> Effect | None:
        from limen.sim.replay import compare_by_log

        effect = await asyncio.to_thread(compare_by_log, before, after, logs)
        return effect if effect.requests else None

    return judge


def effect_from(document: dict[str, Any]) -> Effect:
    """An effect as `limen.rules.effect.effect_to_document` writes it."""
    fields = {name: document[name] for name in Effect._fields}
    return Effect(**{**fields, "most": tuple(Affected(**each) for each in document["most"])})


def _known(wanted: set[str], clients: Iterable[StoredClient], pseudonyms: Pseudonyms) -> dict[str, str]:
    """The names behind some pseudonyms, as far as they are those of clients."""
    found = ((pseudonyms.name(each.client), each.client) for each in clients)
    return {pseudonym: name for pseudonym, name in found if pseudonym in wanted}


def _question(
    secret: bytes, before: RuleSet, after: RuleSet, chunks: list[bytes], overrides: Sequence[Override]
) -> bytes:
    """What `limen.apps.judge` reads: in parts, for nothing else runs while one is written."""
    streams = _documents(before), _documents(after), overrides
    return b"".join([pickle.dumps((secret, chunks, BUDGET_S)), *chain.from_iterable(map(_in_parts, streams))])


def _documents(ruleset: RuleSet) -> list[dict[str, Any]]:
    return [rule.to_document() for rule in ruleset.rules]


def _in_parts(items: Sequence[object]) -> Iterator[bytes]:
    """Lists of some of them, and an empty one at the end."""
    for at in range(0, len(items), PART):
        yield pickle.dumps(items[at : at + PART])
    yield pickle.dumps([])


async def _asked(question: bytes) -> bytes:
    """The answer of a process that exists for this question. It ends with whoever asks."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "limen.apps.judge",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(PATIENCE_S):
            answer, words = await process.communicate(question)
    except TimeoutError:
        raise RulesUnavailable(f"the traffic of the last hours was not replayed within {PATIENCE_S:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise _failure(process.returncode, words.decode(errors="replace"))
    return answer


def _failure(status: int, words: str) -> LimenError:
    last = words.strip().rpartition("\n")[2]
    return UsageError(f"the traffic of the last hours could not be replayed: {last or f'exit status {status}'}")
