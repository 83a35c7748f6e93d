"""Errors as `application/problem+json` (RFC 9457). Pure."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, NamedTuple

__all__ = ["Headers", "Reply", "json_reply", "problem"]

Headers = list[tuple[str, str]]

PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Reply(NamedTuple):
    """A whole HTTP response."""

    status: int
    headers: Headers
    body: bytes


def problem(
    status: int, detail: str, *, kind: str = "about:blank", headers: Headers | None = None, **members: Any
) -> Reply:
    """A problem document.

    Args:
        status: the HTTP status; its phrase becomes the title.
        detail: what was wrong and what to do, without anything secret: it is sent to the client.
        kind: the URI of the problem type.
        headers: further fields of the response.
        members: further members of the document; `_` in their names becomes `-`.
    """
    document = {"type": kind, "title": PHRASES.get(status, "Error"), "status": status, "detail": detail}
    document.update((name.replace("_", "-"), value) for name, value in members.items())
    return json_reply(status, document, headers, "application/problem+json")


def json_reply(
    status: int, document: Any, headers: Headers | None = None, content_type: str = "application/json"
) -> Reply:
    """A response that holds `document`. It is the answer of this moment, so nobody may keep it."""
    body = json.dumps(document, separators=(",", ":"), ensure_ascii=True).encode()
    own = [("content-type", content_type), ("content-length", str(len(body))), ("cache-control", "no-store")]
    return Reply(status, [*own, *(headers or ())], body)
