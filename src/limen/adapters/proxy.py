"""A reverse proxy as an ASGI app: one upstream, bodies streamed both ways, nothing kept.

    app = EdgeChecks(RateLimitMiddleware(ReverseProxy("http://127.0.0.1:9000"), limiter))

The upstream comes from configuration alone: no target, Host or redirect of anybody chooses another. A request that
may have reached the upstream is not sent again, unless its method is idempotent, it has no body, and the upstream
hung up before it answered.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from limen.adapters.asgi_types import Receive, Scope, Send, live, refuse, send_reply
from limen.adapters.identity import header_values, peer_of
from limen.adapters.problem import Reply, problem
from limen.adapters.proxy_body import Incoming
from limen.adapters.proxy_headers import forwarded_path, request_headers, response_headers
from limen.errors import MissingExtra, SettingsError
from limen.rules.client_ip import networks, parse_address

try:
    import aiohttp
    from yarl import URL

    from limen.adapters.proxy_websocket import bridge
except ImportError as error:
    raise MissingExtra("the reverse proxy", "service") from error

__all__ = ["ReverseProxy"]

OWN_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""What the client library would add by itself."""
MAX_FIELD_BYTES = 64 * 1024
BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE", "TRACE"})

log = logging.getLogger(__name__)


class ReverseProxy:
    """An ASGI app that forwards every request and WebSocket to one upstream.

    Args:
        upstream: its base URL, `http://host:port` or with a path that is put before every path.
        trusted_proxies: networks of our own proxies; what they say of the client's Host and scheme is passed on.
        trust_unix: whoever speaks over a Unix socket is one of our proxies.
        connect_timeout_s: the longest that a connection may take to be made; then 504.
        timeout_s: the longest silence of the upstream; then 504, or the end of a response that has begun.
        max_connections: the most connections to the upstream; further requests wait `connect_timeout_s` for one.

    Use it as `async with ReverseProxy(...) as app:`, or let the server do it by lifespan.

    Raises:
        SettingsError: the upstream is not a URL of that form.
    """

    def __init__(
        self,
        upstream: str,
        *,
        trusted_proxies: Iterable[str] = (),
        trust_unix: bool = False,
        connect_timeout_s: float = 5.0,
        timeout_s: float = 60.0,
        max_connections: int = 1000,
    ) -> None:
        self._base = _base(upstream)
        self._trusted = networks(trusted_proxies)
        self._trust_unix = trust_unix
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=connect_timeout_s, sock_connect=connect_timeout_s, sock_read=timeout_s
        )
        self._max_connections = max_connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Make the connection pool. No connection is opened before it is needed."""
        self._session = self._session or aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._max_connections),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._timeout,
            auto_decompress=False,
            skip_auto_headers=OWN_HEADERS,
            max_line_size=MAX_FIELD_BYTES,
            max_field_size=MAX_FIELD_BYTES,
        )

    async def close(self) -> None:
        """Hang up."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send, self.open, self.close)
            return
        try:
            headers = self._request_headers(scope)
        except UnicodeDecodeError:
            await refuse(scope, receive, send, problem(400, "A header value is not UTF-8 and cannot be passed on."))
            return
        if self._session is None:
            raise SettingsError("the proxy is not open; use it by 'async with', or run the server with lifespan")
        if scope["type"] == "websocket":
            await bridge(self._session, self._url(scope), headers, (scope, receive, send))
            return
        async with Incoming(receive) as incoming:
            await self._exchange(self._session, scope, headers, incoming, send)

    def _request_headers(self, scope: Scope) -> list[tuple[str, str]]:
        peer = peer_of(scope)
        address = parse_address(peer) if peer else None
        believed = any(address in net for net in self._trusted) if address else self._trust_unix and not peer
        scheme = "https" if scope["scheme"] in ("https", "wss") else "http"
        return request_headers(scope["headers"], peer, scheme, believed)

    def _url(self, scope: Scope) -> URL:
        query = scope.get("query_string", b"").decode("ascii")
        target = forwarded_path(scope["raw_path"].decode("ascii"))
        return URL(f"{self._base}{target}?{query}" if query else self._base + target, encoded=True)

    async def _exchange(
        self,
        session: aiohttp.ClientSession,
        scope: Scope,
        headers: list[tuple[str, str]],
        incoming: Incoming,
        send: Send,
    ) -> None:
        begun = False
        body = incoming.body() if _has_body(scope) else None
        try:
            async with session.request(
                scope["method"], self._url(scope), headers=headers, data=body, allow_redirects=False
            ) as response:
                begun = True
                await _pass_on(response, send)
        except (aiohttp.ClientError, TimeoutError) as error:
            if not begun:
                await send_reply(send, _failure(error))
            else:
                # The status is with the client already; leaving the response unfinished makes the server hang up.
                log.warning("the upstream broke off a response: %s", type(error).__name__)


async def _pass_on(response: aiohttp.ClientResponse, send: Send) -> None:
    if response.status < 200:
        raise aiohttp.ClientPayloadError("an upgrade that nobody asked for")
    headers = response_headers(response.raw_headers)
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    content = response.content
    more = True
    while more:
        piece = await content.readany()
        more = not content.at_eof()
        await send({"type": "http.response.body", "body": piece, "more_body": more})


def _failure(error: Exception) -> Reply:
    log.warning("the upstream did not answer: %s", type(error).__name__)
    if isinstance(error, TimeoutError):
        return problem(504, "The server behind this gateway did not answer in time.")
    return problem(502, "The server behind this gateway cannot be reached.")


def _has_body(scope: Scope) -> bool:
    """Whether a body follows, by RFC 9112 section 6.3; newer versions of HTTP need not say so."""
    lengths = header_values(scope, b"content-length")
    if lengths:
        return lengths != ["0"]
    if header_values(scope, b"transfer-encoding"):
        return True
    return bool(scope["http_version"] >= "2" and scope["method"] not in BODILESS)


def _base(upstream: str) -> str:
    try:
        parts = urlsplit(upstream)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise SettingsError(f"the upstream must be a URL such as http://127.0.0.1:9000, not {upstream!r}")
    if parts.query or parts.fragment or parts.username is not None:
        raise SettingsError("the upstream must be a plain URL, without user, query or fragment")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
