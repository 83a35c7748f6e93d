"""What an operator writes about a client, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from limen.errors import Problem, RuleError, UsageError

__all__ = ["MAX_API_KEYS", "ClientFields", "client_fields", "client_name"]

FIELDS = ("plan", "api_keys")
MAX_API_KEYS = 1000


class ClientFields(NamedTuple):
    plan: str | None
    api_keys: tuple[str, ...] | None
    """None: keep those that are there."""


def client_name(name: str) -> str:
    """
    Raises:
        UsageError: not a name for a client.
    """
    if not 1 <= len(name) <= 256 or not name.isprintable():
        raise UsageError("the name of a client is 1 to 256 printable characters")
    return name


def client_fields(document: object) -> ClientFields:
    """The fields of `{plan, api_keys}`. No message repeats an API key.

    Raises:
        RuleError: every problem, each naming its field.
    """
    if not isinstance(document, Mapping):
        raise RuleError([Problem('a client is an object such as {"plan": "free", "api_keys": ["…"]}')])
    hint = f"there is no such field; a client has {' and '.join(FIELDS)}"
    problems = [Problem(hint, field=str(name)) for name in document if name not in FIELDS]
    plan, keys = document.get("plan"), document.get("api_keys")
    if plan is not None and not _is_text(plan, 1, 64):
        problems.append(Problem("a plan is 1 to 64 printable characters", field="plan"))
    if "api_keys" in document:
        problems += _key_problems(keys)
    if problems:
        raise RuleError(problems)
    return ClientFields(plan, None if keys is None else tuple(keys))


def _key_problems(keys: object) -> list[Problem]:
    if not isinstance(keys, list) or len(keys) > MAX_API_KEYS:
        return [Problem(f"must be a list of at most {MAX_API_KEYS} texts", field="api_keys")]
    return [
        Problem("an API key is 8 to 256 printable ASCII characters without spaces", field=f"api_keys[{index}]")
        for index, key in enumerate(keys)
        if not _is_api_key(key)
    ]


def _is_api_key(key: object) -> bool:
    """Whether a header field can carry it unchanged."""
    return _is_text(key, 8, 256) and isinstance(key, str) and key.isascii() and " " not in key


def _is_text(value: object, shortest: int, longest: int) -> bool:
    return isinstance(value, str) and shortest <= len(value) <= longest and value.isprintable()
