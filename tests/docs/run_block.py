"""Run python text of a page as its reader would: `run_block.py PAGE:LINE`, the text on stdin.

An ASGI app that the text leaves in `app` is started, asked once, and stopped; its answer must tell of a limit.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

SCOPE = {
    "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "method": "GET", "path": "/",
    "raw_path": b"/", "query_string": b"", "headers": [(b"host", b"example.com")], "client": ("192.0.2.7", 50000),
}  # fmt: skip


def main(place: str, text: str) -> None:
    page, line = place.rsplit(":", 1)
    code = compile("\n" * (int(line) - 1) + text, page, "exec")
    names: dict[str, Any] = {"__name__": "__main__", "__file__": page}
    exec(code, names)
    if "app" in names:
        asyncio.run(drive(names["app"]))


async def drive(app: Any) -> None:
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outgoing: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    living = asyncio.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}}, incoming.get, outgoing.put))
    await incoming.put({"type": "lifespan.startup"})
    assert (await outgoing.get())["type"] == "lifespan.startup.complete"
    headers = await ask(app)
    assert b"ratelimit" in headers, headers
    await incoming.put({"type": "lifespan.shutdown"})
    assert (await outgoing.get())["type"] == "lifespan.shutdown.complete"
    await living


async def ask(app: Any) -> dict[bytes, bytes]:
    """The header fields of the answer to one request."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(dict(SCOPE), receive, send)
    return dict(sent[0]["headers"])


if __name__ == "__main__":
    main(sys.argv[1], sys.stdin.read())
