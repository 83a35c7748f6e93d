"""Reading a JSON request body within bounds, and refusing what is not plain JSON."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NoReturn

from limen.adapters.asgi_types import Receive, Scope
from limen.adapters.identity import header_values
from limen.adapters.problem import Reply, problem

__all__ = ["ClientGone", "Refused", "parse_json", "read_body"]


class Refused(Exception):
    """The request is answered with `reply`, a problem that says `detail`; `members` are further members of it."""

    def __init__(self, status: int, detail: str, **members: Any) -> None:
        super().__init__(status, detail)
        self.detail = detail
        self.reply: Reply = problem(status, detail, **members)


class ClientGone(Exception):
    """The client hung up; there is nobody to answer."""


async def read_body(scope: Scope, receive: Receive, max_bytes: int, timeout_s: float) -> bytes:
    """The whole request body.

    Raises:
        Refused: 413, larger than `max_bytes`; 408, not complete after `timeout_s`.
        ClientGone: the client hung up.
    """
    for length in header_values(scope, b"content-length"):
        if length.isdecimal() and int(length[:20]) > max_bytes:
            raise Refused(413, f"The body may have {max_bytes} bytes; send less at once.")
    try:
        async with asyncio.timeout(timeout_s):
            return await _gathered(receive, max_bytes)
    except TimeoutError as error:
        raise Refused(408, f"The body was not complete after {timeout_s:g} seconds.") from error


async def _gathered(receive: Receive, max_bytes: int) -> bytes:
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body += message.get("body", b"")
        if len(body) > max_bytes:
            raise Refused(413, f"The body may have {max_bytes} bytes; send less at once.")
        more = message.get("more_body", False)
    return bytes(body)


def parse_json(body: bytes) -> Any:
    """The document in `body`.

    Raises:
        Refused: 400, it is not JSON in UTF-8, or has what JSON does not: NaN, a name twice, endless nesting.
    """
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_each_once)
    except RecursionError as error:
        raise Refused(400, "The body is nested too deeply.") from error
    except ValueError as error:
        raise Refused(400, f"The body is not JSON: {_reason(error)}.") from error


def _reason(error: ValueError) -> str:
    """Where it stops being JSON, without repeating what was sent."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    return str(error) if type(error) is _NotPlain else "it cannot be decoded"


class _NotPlain(ValueError):
    """Python reads it, JSON does not have it."""


def _no_constant(name: str) -> NoReturn:
    raise _NotPlain(f"{name} is not a number")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _NotPlain("a name is there twice")
    return found
