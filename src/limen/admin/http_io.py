"""Bodies of the admin API: read within bounds, written as JSON."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from limen.admin.problems import Reply
from limen.admin.strict_json import MAX_BYTES, json_from_text
from limen.errors import MissingExtra, UsageError

try:
    from fastapi import HTTPException, Request, Response
except ImportError as error:
    raise MissingExtra("the admin API", "service") from error

__all__ = ["answer", "problem", "read_json"]

BODY_SECONDS = 10.0
"""The longest that a request body may take to arrive."""


async def read_json(request: Request, otherwise: object = None) -> Any:
    """The body as JSON; `otherwise` when there is none and that is given."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await _body(request)
    except TimeoutError as error:
        raise HTTPException(408, f"The body was not complete after {BODY_SECONDS:g} seconds.") from error
    if not body and otherwise is not None:
        return otherwise
    try:
        return json_from_text(body)
    except UsageError as error:
        raise HTTPException(400, f"The body cannot be used: {error}.") from error


async def _body(request: Request) -> bytes:
    announced = request.headers.get("content-length", "")
    size = int(announced[:20]) if announced.isdecimal() else 0
    body = bytearray()
    if size <= MAX_BYTES:
        async for chunk in request.stream():
            body += chunk
            size = len(body)
            if size > MAX_BYTES:
                break
    if size > MAX_BYTES:
        raise HTTPException(413, f"The body is larger than {MAX_BYTES >> 20} MiB.")
    return bytes(body)


def answer(body: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return _response(Reply(status, body, headers or {}), "application/json")


def problem(reply: Reply) -> Response:
    return _response(reply, "application/problem+json")


def _response(reply: Reply, media_type: str) -> Response:
    headers = {"Cache-Control": "no-store", **reply.headers}
    return Response(json.dumps(reply.body, allow_nan=False), reply.status, headers, media_type)
