"""HTTP/1.1 with bounds: requests whose headers are huge, or never end, are cut off before they cost anything."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["BoundedHttpProtocol"]

MAX_HEADER_BYTES = 64 * 1024
HEADER_SECONDS = 15.0

TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/problem+json\r\n"
    b"content-length: 60\r\nconnection: close\r\n\r\n"
    b'{"title":"Request Header Fields Too Large","status":431}\r\n\r\n'
)


class BoundedHttpProtocol(HttpToolsProtocol):
    """uvicorn's fast parser, which has no bounds of its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reading_headers = True
        self._header_bytes = 0
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._header_timer = self.loop.call_later(HEADER_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._reading_headers:
            self._header_bytes += len(data)
            if self._header_bytes > MAX_HEADER_BYTES and self._refused(data):
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._reading_headers = True
        self._header_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._reading_headers = False
        self._stop_timer()
        super().on_headers_complete()

    def _refused(self, data: bytes) -> bool:
        """A body may come in one read with its headers; only headers that are still open are too large."""
        if self._header_bytes == len(data) and b"\r\n\r\n" in data[:MAX_HEADER_BYTES]:
            return False
        self.transport.write(TOO_LARGE)
        self.transport.close()
        return True

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None
