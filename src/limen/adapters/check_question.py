"""What the check API is asked, from JSON or a query: one client under one rule, or a whole request. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from limen.adapters.json_body import Refused
from limen.errors import UsageError
from limen.rules.cost import MAX_COST, check_cost
from limen.rules.request import Request

__all__ = ["MAX_BATCH", "Check", "batch_of", "look", "question", "wanted"]

MAX_BATCH = 1000
BY_RULE = ("client", "rule", "cost")
HEADER = "header"
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
        return _check(document, document.get("cost", 1))
    if "cost" in document:
        raise Refused(422, "'cost' goes with 'rule'; what a request costs is in its rules.")
    _refuse_others(document, BY_REQUEST)
    if "path" not in document:
        raise Refused(422, "Either 'client' and 'rule' are needed, or the attributes of a request with its 'path'.")
    return _request(document)


def batch_of(documents: object) -> list[Any]:
    """The items of a batch, not looked at yet.

    Raises:
        Refused: 422, it is not a list of 1 to 1000.
    """
    if not isinstance(documents, list) or not 1 <= len(documents) <= MAX_BATCH:
        raise Refused(422, f"A batch is a list of 1 to {MAX_BATCH} checks.")
    return documents


def look(query: bytes) -> Check:
    """`client=…&rule=…`, perhaps with `&cost=…`.

    Raises:
        Refused: 422, with the field that is wrong.
    """
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    asked = dict(pairs)
    if len(asked) != len(pairs) or asked.keys() - set(BY_RULE):
        raise Refused(422, "The query has 'client' and 'rule' and perhaps 'cost', each once, and nothing else.")
    cost = asked.get("cost", "1")
    return _check(asked, int(cost) if _is_number(cost) else cost)


def wanted(query: bytes) -> Request:
    """A request from `path=…`, perhaps with method, host, client, plan, user, ip, and `header=Name: value` any often.

    Raises:
        Refused: 422, with the field that is wrong.
    """
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    headers = [value for name, value in pairs if name == HEADER]
    document: dict[str, Any] = {name: value for name, value in pairs if name != HEADER}
    known = (*BY_REQUEST[:-1], HEADER)
    if len(document) + len(headers) != len(pairs) or any(name not in known for name in document):
        raise Refused(422, f"The query has {', '.join(known)}, each once but header, and nothing else.")
    _text(document, "path")
    return _request({**document, "headers": dict(map(_header, headers))})


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        raise Refused(422, "'header' is written 'Name: value'.")
    return name.strip(), value.strip()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 20


def _check(fields: Mapping[str, Any], cost: object) -> Check:
    return Check(_text(fields, "client"), _text(fields, "rule"), _cost(cost))


def _cost(value: object) -> int:
    try:
        return check_cost(value)
    except UsageError as error:
        raise Refused(422, f"'cost' must be a whole number of tokens from 0 to {MAX_COST:,}.") from error


def _text(document: Mapping[str, Any], name: str) -> str:
    """The text in a field that must be there and not be empty."""
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
    texts = {name: _text(document, name) for name in BY_REQUEST[:-1] if document.get(name) is not None}
    lower = {name.lower(): _encodable(value, "headers") for name, value in headers.items()}
    return Request(**texts, headers=lower)
