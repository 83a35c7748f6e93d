"""One question from a shell, or one order: a check, a reset, a grant."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from limen.apps.cli import DONE, NO
from limen.apps.cli.asking import Order, ask_limiter, refuse_memory
from limen.apps.cli.options import DEFAULT_RULES_DB, AsJson, Secrets, Whole

if TYPE_CHECKING:
    from limen.core.decision import Decision

__all__ = ["check", "grant", "reset"]

NO_SECRETS = Secrets()


def check(
    client: str,
    rule: str,
    /,
    *,
    cost: Whole = 1,
    store: str,
    rules_db: str = DEFAULT_RULES_DB,
    secrets: Secrets = NO_SECRETS,
    as_json: AsJson = False,
) -> int:
    """Ask whether a client may pass a rule now, and spend its cost if so. Exit status 1 says no.

    Args:
        client: Name of the client.
        rule: Id of the rule.
        cost: Tokens to spend; 0 only looks.
        store: URL of the counter store.
        rules_db: URL of the rules database.
        as_json: Print the decision as JSON.
    """
    decision: Decision = ask_limiter(store, rules_db, secrets, lambda limiter: limiter.check(client, rule, cost))
    print(json.dumps(decision.to_json()) if as_json else _sentence(decision))
    return DONE if decision.allowed else NO


def reset(
    client: str,
    rule: str | None = None,
    /,
    *,
    reason: str = "",
    store: str,
    rules_db: str = DEFAULT_RULES_DB,
    secrets: Secrets = NO_SECRETS,
    as_json: AsJson = False,
) -> None:
    """Fill a client's buckets again: under one rule, or under all that are keyed by the client alone.

    Args:
        client: Name of the client.
        rule: Id of the rule; all when it is left out.
        reason: Why, for the audit log.
        store: URL of the counter store.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    refuse_memory(store, "/admin/clients/{client}/reset")
    order = Order("bucket.reset", f"client:{client}", {"rule": rule}, reason)
    ask_limiter(store, rules_db, secrets, lambda limiter: limiter.reset(client, rule), order)
    print(json.dumps({"client": client, "rule": rule, "reset": True}) if as_json else f"{client} begins afresh")


def grant(
    client: str,
    rule: str,
    tokens: Whole,
    /,
    *,
    lasts: Annotated[str, Parameter(name="--for")] = "1h",
    reason: str = "",
    store: str,
    rules_db: str = DEFAULT_RULES_DB,
    secrets: Secrets = NO_SECRETS,
    as_json: AsJson = False,
) -> None:
    """Let a client spend more under a rule, on top of its limit and for a time.

    Args:
        client: Name of the client.
        rule: Id of the rule.
        tokens: How many more.
        lasts: Until when they can be spent: 90s, 15m, 1h, 1d; 30 days at most.
        reason: Why, for the audit log.
        store: URL of the counter store.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.admin.buckets import grant_body, grant_from

    refuse_memory(store, "/admin/grants")
    given = grant_from({"client": client, "rule": rule, "tokens": tokens, "for": lasts})
    detail = {"rule": rule, "tokens": tokens, "seconds": given.seconds}
    order = Order("bucket.grant", f"client:{client}", detail, reason)
    now: Decision = ask_limiter(store, rules_db, secrets, lambda limiter: limiter.grant(*given), order)
    total = "" if now.remaining is None else f", {now.remaining} in all"
    said = f"{client} may spend {tokens} more under {rule} for {lasts}{total}"
    print(json.dumps(grant_body(given, now)) if as_json else said)


def _sentence(decision: Decision) -> str:
    left = "" if decision.remaining is None else f", {decision.remaining} of {decision.limit} left"
    if decision.allowed:
        return f"allowed{left}"
    wait = "never" if decision.retry_after_ms is None else f"in {decision.retry_after_ms / 1000:g} s"
    return f"denied ({decision.reason}){left}; the same would pass {wait}"
