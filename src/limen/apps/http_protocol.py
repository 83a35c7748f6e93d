"""HTTP/1.1 with bounds, on uvicorn's fast parser, which has none.

- A head that is huge is answered with 431, one that does not come to its end with 408; so is what stands around the
  pieces of a chunked body. Each head of a kept connection has these bounds.
- What two servers could read in different ways is answered with 400: framing that contradicts itself, a target that
  names another host than Host. Trailers are dropped; they never become headers.
- An offer to upgrade to anything but a WebSocket is overlooked (RFC 9110 section 7.8), and the request served.
- Whatever is refused ends the connection, after those answers that are due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from limen.adapters.problem import problem

__all__ = ["BoundedHttpProtocol"]

MAX_HEAD_BYTES = 64 * 1024
SLICE = 16 * 1024
"""The parser gets at most this much at once, so that a bound is missed by no more than this."""
HEAD_SECONDS = 15.0
LEFTOVER_SECONDS = 10.0
"""How long the rest of a body may take to arrive that was answered before its end."""
LINGER_SECONDS = 2.0
"""How long a refused client may go on sending. Hanging up at once would take the answer from it (RFC 9112, 9.6)."""


def _reply(status: int, detail: str) -> bytes:
    reply = problem(status, detail, headers=[("connection", "close")])
    fields = "".join(f"{name}: {value}\r\n" for name, value in reply.headers)
    return STATUS_LINE[status] + fields.encode() + b"\r\n" + reply.body


BAD_REQUEST = _reply(400, "This is not HTTP/1.1, or it can be read in several ways.")
TOO_SLOW = _reply(408, "The head of the request did not arrive in time.")
TOO_LARGE = _reply(431, f"The head of a request may have {MAX_HEAD_BYTES} bytes.")


class _Unclear(Exception):
    """The request can be read in several ways."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. See the module for what it adds."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open_bytes = 0
        """Of a head, or of framing within a body, whose end has not come yet."""
        self._in_body = False
        self._overlook_upgrade = False
        self._deaf = False
        """Whatever else arrives is not ours, or nobody's."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._in(HEAD_SECONDS, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        for start in range(0, len(data), SLICE):
            if self._deaf or self.transport.is_closing():
                return
            self._parse(data[start : start + SLICE])

    def send_400_response(self, msg: str) -> None:
        self._refuse(BAD_REQUEST)

    def on_message_begin(self) -> None:
        self._open_bytes = max(1, self._open_bytes)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._open_bytes = 0
        self._require_one_reading()
        self._overlook_upgrade = self.parser.should_upgrade() and not self._should_upgrade()
        if not self._overlook_upgrade:
            super().on_headers_complete()
            self._in_body = True

    def on_body(self, body: bytes) -> None:
        self._open_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._in_body = False
        self._open_bytes = 0
        super().on_message_complete()
        if self.cycle.response_complete:  # that was the rest of a body, and the connection is idle from here on
            self._stop_timer()
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_body and self.cycle.response_complete:
            self._in(LEFTOVER_SECONDS, self.transport.close)

    def _parse(self, piece: bytes) -> None:
        self._open_bytes += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as found:
            self._upgrade(piece[found.args[0] :])
        except httptools.HttpParserError:
            self._refuse(BAD_REQUEST)
        else:
            self._hold_to_bounds()

    def _hold_to_bounds(self) -> None:
        if self._open_bytes > MAX_HEAD_BYTES:
            self._refuse(TOO_LARGE)
        elif self._open_bytes and not self._in_body and self._timer is None:
            self._in(HEAD_SECONDS, self._head_is_late)

    def _head_is_late(self) -> None:
        if self._open_bytes:
            self._refuse(TOO_SLOW)
        else:
            self.transport.close()

    def _upgrade(self, rest: bytes) -> None:
        if self._overlook_upgrade:
            self._parse_again(rest)
        elif (cycle := self._latest()) is not None and not cycle.response_complete:
            self._refuse(BAD_REQUEST)
        else:
            self._deaf = True
            self.handle_websocket_upgrade()

    def _parse_again(self, rest: bytes) -> None:
        """Give the request to a parser that does not see the Upgrade: one that sees it takes the body for no body."""
        version = self.parser.get_http_version().encode()
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/" + version]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        self._overlook_upgrade = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._parse(b"\r\n".join([*lines, b"", b""]) + rest)

    def _require_one_reading(self) -> None:
        version = self.parser.get_http_version()
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if version not in ("1.0", "1.1") or (codings and (version == "1.0" or codings != [b"chunked"])):
            raise _Unclear
        if self.parser.get_method() == b"CONNECT" or not self._names_one_host():
            raise _Unclear

    def _names_one_host(self) -> bool:
        """Whether a target in absolute form (`GET http://host/path`) names the host that Host names."""
        if self.url.startswith((b"/", b"*")):
            return True
        authority = self.url.partition(b"://")[2].partition(b"/")[0].partition(b"?")[0]
        return [value.lower() for name, value in self.headers if name == b"host"] == [authority.lower()]

    def _refuse(self, answer: bytes) -> None:
        """Hear no more. What was asked in full before is answered first, and instead."""
        self._deaf = True
        self._stop_timer()
        cycle = self._latest()
        if cycle is None or (cycle.response_complete and not self._in_body):
            self._say_goodbye(answer)
        elif cycle.response_complete:
            self.transport.close()
        elif not cycle.more_body:
            cycle.keep_alive = False
        else:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started or self.pipeline:
                self.transport.close()
            else:
                self._say_goodbye(answer)

    def _latest(self) -> RequestResponseCycle | None:
        """The request that came last; None before the first."""
        return self.cycle

    def _say_goodbye(self, answer: bytes) -> None:
        self.transport.write(answer)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._in(LINGER_SECONDS, self.transport.close)

    def _in(self, seconds: float, act: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, act)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
