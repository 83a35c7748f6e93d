"""A limiter for one question from a shell: the rules of the database, the buckets of the store, no service needed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from limen.apps.cli.options import Secrets

if TYPE_CHECKING:
    from limen.engine.aio import AsyncLimiter
    from limen.errors import StoreError

__all__ = ["Order", "ask_limiter", "refuse_memory"]

T = TypeVar("T")


class Order(NamedTuple):
    """What somebody has done to buckets, for the audit log."""

    action: str
    subject: str
    detail: dict[str, Any]
    reason: str


PATIENCE_MS = 1000
"""How long a question may take: nobody's request waits for it."""


def ask_limiter(
    store: str,
    rules_db: str,
    secrets: Secrets,
    ask: Callable[[AsyncLimiter], Awaitable[T]],
    order: Order | None = None,
) -> T:
    """The answer of a limiter that exists for this question; with the secret that its fellows use.

    Args:
        order: what is written into the audit log before it is done; None for questions that change nothing.

    Raises:
        StoreError: the store did not answer, and why, as far as that can be found out.
    """
    import asyncio
    import time

    from limen.admin.records import Signature
    from limen.admin.service import AdminService
    from limen.admin.standing_records import merged
    from limen.admin.stored_rules import salvaged
    from limen.apps.repositories import repository_for
    from limen.apps.settings import Shared
    from limen.engine.aio import AsyncLimiter
    from limen.errors import StoreError
    from limen.rules.standing import Standing

    logging.getLogger("limen.store").setLevel(logging.ERROR)  # what it would say is said by the exit status
    shared = Shared(store=store, rules_db=rules_db, secret=secrets.secret, previous_secret=secrets.previous_secret)

    async def answer() -> T:
        async with repository_for(shared) as repository:
            snapshot = await repository.snapshot()
            current, previous = await repository.secrets()
            if order is not None:
                by = Signature(reason=order.reason)
                await AdminService(repository).note(order.action, order.subject, order.detail, by)
            said = (await repository.standing.changes(0, int(time.time()))).rows
        ruleset = salvaged(snapshot.rules, revision=snapshot.revision).ruleset
        limiter = AsyncLimiter(store, ruleset, secret=current, previous_secret=previous, deadline_ms=PATIENCE_MS)
        limiter.use_standing(merged(Standing(), said, time.time())[0])
        async with limiter:
            try:
                answer = await ask(limiter)
            except StoreError as error:
                raise await _reason(store) from error
            if getattr(answer, "degraded", False):
                raise await _reason(store)
            return answer

    return asyncio.run(answer())


def refuse_memory(store: str, route: str) -> None:
    """Refuse to change buckets that are in another process.

    Raises:
        UsageError: the store is `memory://`.
    """
    from limen.errors import UsageError

    if store == "memory://":
        raise UsageError(f"memory:// is known only to the process that has it; ask that one, by POST {route}")


async def _reason(store: str) -> StoreError:
    """Why the store does not answer."""
    from limen.errors import StoreError
    from limen.stores.valkey.connect import open_link
    from limen.stores.valkey.url import parse_target

    target = parse_target(store)
    try:
        for seed in target.seeds:
            (await open_link(seed, PATIENCE_MS / 1000, PATIENCE_MS / 1000)).close()
    except StoreError as error:
        return error
    return StoreError(f"{target} does not answer in time; look at the server, and at --store (limen doctor tells more)")
