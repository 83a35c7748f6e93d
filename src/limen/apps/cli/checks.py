"""One question from a shell."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

from limen.apps.cli import DONE, NO
from limen.apps.cli.options import DEFAULT_RULES_DB, AsJson, Whole

if TYPE_CHECKING:
    from limen.core.decision import Decision
    from limen.engine.aio import AsyncLimiter

__all__ = ["check", "reset"]

T = TypeVar("T")


def check(
    client: str,
    rule: str,
    /,
    *,
    cost: Whole = 1,
    store: str,
    rules_db: str = DEFAULT_RULES_DB,
    secret: str | None = None,
    as_json: AsJson = False,
) -> int:
    """Ask whether a client may pass a rule now, and spend its cost if so. Exit status 1 says no.

    Args:
        client: Name of the client.
        rule: Id of the rule.
        cost: Tokens to spend; 0 only looks.
        store: URL of the counter store.
        rules_db: URL of the rules database.
        secret: As the gateways have it.
        as_json: Print the decision as JSON.
    """
    decision: Decision = _with_limiter(store, rules_db, secret, lambda limiter: limiter.check(client, rule, cost))
    print(json.dumps(decision.to_json()) if as_json else _sentence(decision))
    return DONE if decision.allowed else NO


def reset(
    client: str,
    rule: str | None = None,
    /,
    *,
    store: str,
    rules_db: str = DEFAULT_RULES_DB,
    secret: str | None = None,
    as_json: AsJson = False,
) -> None:
    """Fill a client's buckets again: under one rule, or under all that are keyed by the client alone.

    Args:
        client: Name of the client.
        rule: Id of the rule; all when it is left out.
        store: URL of the counter store.
        rules_db: URL of the rules database.
        secret: As the gateways have it.
        as_json: Print JSON.
    """
    _with_limiter(store, rules_db, secret, lambda limiter: limiter.reset(client, rule))
    print(json.dumps({"client": client, "rule": rule, "reset": True}) if as_json else f"{client} begins afresh")


def _with_limiter(store: str, rules_db: str, secret: str | None, ask: Callable[[AsyncLimiter], Awaitable[T]]) -> T:
    """The answer of a limiter that exists for this question; with the secret that its fellows use."""
    import asyncio

    from limen.admin.repository import Repository
    from limen.admin.stored_rules import readable_rules
    from limen.engine.aio import AsyncLimiter
    from limen.rules.ruleset import RuleSet

    logging.getLogger("limen.store").setLevel(logging.ERROR)  # what it would say is said by the exit status

    async def answer() -> T:
        async with Repository(rules_db, secret.encode() if secret else None) as repository:
            snapshot = await repository.snapshot()
            ruleset = RuleSet(readable_rules(snapshot.rules), snapshot.revision)
            async with AsyncLimiter(store, ruleset, secret=await repository.secret(), deadline_ms=1000) as limiter:
                if limiter.store_state == "down":
                    await _complain(store)
                answer = await ask(limiter)
                if getattr(answer, "degraded", False):
                    await _complain(store)
                return answer

    return asyncio.run(answer())


async def _complain(store: str) -> NoReturn:
    """
    Raises:
        StoreError: why the store does not answer, as far as that can be found out.
    """
    from limen.errors import StoreError
    from limen.stores.valkey.connect import open_link
    from limen.stores.valkey.endpoint import parse_endpoint

    endpoint = parse_endpoint(store)
    (await open_link(endpoint, 1.0, 1.0)).close()
    raise StoreError(f"{endpoint} does not answer in time; look at the server, and at --store")


def _sentence(decision: Decision) -> str:
    left = "" if decision.remaining is None else f", {decision.remaining} of {decision.limit} left"
    if decision.allowed:
        return f"allowed{left}"
    wait = "never" if decision.retry_after_ms is None else f"in {decision.retry_after_ms / 1000:g} s"
    return f"denied ({decision.reason}){left}; the same would pass {wait}"
