"""What an operator does to buckets: fill them again, and grant tokens on top of them. Knows nothing of HTTP."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from limen.admin.clients import client_name
from limen.core.decision import Decision
from limen.errors import Problem, RuleError, UsageError
from limen.rules.duration import duration_s
from limen.rules.model import ID

__all__ = ["DEFAULT_GRANT", "Buckets", "Grant", "grant_body", "grant_from", "rule_to_reset"]

FIELDS = ("client", "rule", "tokens", "for")
DEFAULT_GRANT = "1h"


class Buckets(Protocol):
    """Who can reach the buckets, such as an `AsyncLimiter`. Both raise `StoreError` while the store does not answer."""

    async def reset(self, client: str, rule: str | None = None) -> None: ...
    async def grant(self, client: str, rule: str, tokens: int, seconds: float = ...) -> Decision: ...


class Grant(NamedTuple):
    """Tokens on top of a limit, for a time."""

    client: str
    rule: str
    tokens: int
    seconds: float


def rule_to_reset(document: object) -> str | None:
    """The rule under which buckets are to be filled; None for all.

    Raises:
        UsageError: not `{"rule": …}`, nor empty.
    """
    if not isinstance(document, dict) or document.keys() - {"rule"}:
        raise UsageError('write {"rule": "my-rule"}, or {} for all rules')
    rule = document.get("rule")
    return None if rule is None else _rule(rule)


def grant_from(document: object) -> Grant:
    """The fields of `{client, rule, tokens, for}`; without `for` it is an hour.

    Raises:
        RuleError: every problem, each naming its field.
    """
    if not isinstance(document, dict):
        raise RuleError([Problem('a grant is an object such as {"client": "acme", "rule": "search", "tokens": 50}')])
    hint = f"there is no such field; a grant has {', '.join(FIELDS)}"
    problems = [Problem(hint, field=str(name)) for name in document if name not in FIELDS]
    read: dict[str, Any] = {}
    for name, check in CHECKS.items():
        try:
            read[name] = check(document.get(name, DEFAULT_GRANT if name == "for" else None))
        except UsageError as error:
            problems.append(Problem(str(error), field=name))
    if problems:
        raise RuleError(problems)
    return Grant(*(read[name] for name in FIELDS))


def grant_body(grant: Grant, now: Decision) -> dict[str, Any]:
    """What was granted, and what the client can spend now."""
    return {**grant._asdict(), "state": now.to_json()}


def _client(value: object) -> str:
    return client_name(_text(value))


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError("is needed, as text")
    return value


def _rule(value: object) -> str:
    if not isinstance(value, str) or not ID.fullmatch(value):
        raise UsageError("the id of a rule is needed, as text")
    return value


def _tokens(value: object) -> int:
    if type(value) is not int or value < 1:
        raise UsageError("is needed, as a whole number from 1")
    return value


CHECKS = {"client": _client, "rule": _rule, "tokens": _tokens, "for": duration_s}
