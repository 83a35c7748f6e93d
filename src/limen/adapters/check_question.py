"""What the check API is asked, from JSON: one client under one rule, or a whole request. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from limen.adapters.json_body import Refused
from limen.errors import UsageError
from limen.rules.model import check_cost
from limen.rules.request import Request

__all__ = ["Check", "as_text", "question"]

BY_RULE = ("client", "rule", "cost")
BY_REQUEST = ("method", "path", "host", "client", "plan", "user", "ip", "headers")


class Check(NamedTuple):
    """May this client spend `cost` under this rule?"""

    client: str
    rule: str
    cost: int = 1


def question(document: Any) -> Check | Request:
    """`{"client", "rule", "cost"}`, or the attributes of a request: at least `path`.

    Raises:
        Refused: 422, with the field that is wrong.
    """
    if not isinstance(document, dict):
        raise Refused(422, 'A check is an object such as {"client": "acme", "rule": "search"}.')
    if "rule" in document:
        _refuse_others(document, BY_RULE)
        return Check(as_text(document, "client"), as_text(document, "rule"), _cost(document.get("cost", 1)))
    if "cost" in document:
        raise Refused(422, "'cost' goes with 'rule'; what a request costs is in its rules.")
    _refuse_others(document, BY_REQUEST)
    if "path" not in document:
        raise Refused(422, "Either 'client' and 'rule' are needed, or the attributes of a request with its 'path'.")
    return _request(document)


def _cost(value: object) -> int:
    try:
        return check_cost(value)
    except UsageError as error:
        raise Refused(422, f"{error}.") from error


def as_text(document: Mapping[str, Any], name: str) -> str:
    """The text in a field that must be there and not be empty.

    Raises:
        Refused: 422.
    """
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise Refused(422, f"'{name}' must be a text that is not empty.")
    return _encodable(value, name)


def _encodable(value: str, name: str) -> str:
    if not value.isascii() and any("\ud800" <= sign <= "\udfff" for sign in value):
        raise Refused(422, f"'{name}' has half a character (a lone surrogate).")
    return value


def _refuse_others(document: Mapping[str, Any], known: tuple[str, ...]) -> None:
    if any(name not in known for name in document):
        raise Refused(422, f"There is a field that a check does not have; it has {', '.join(known)}.")


def _request(document: Mapping[str, Any]) -> Request:
    headers = document.get("headers") or {}
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise Refused(422, "'headers' must be an object of texts.")
    texts = {name: as_text(document, name) for name in BY_REQUEST[:-1] if document.get(name) is not None}
    lower = {name.lower(): _encodable(value, "headers") for name, value in headers.items()}
    return Request(**texts, headers=lower)
