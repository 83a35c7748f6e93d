"""Rate limits in front of any ASGI app.

    app = RateLimitMiddleware(app, limiter, identify=ApiKeyIdentity(keys))

- A denied request is answered (429 or 503) before the app hears of it; a denied WebSocket handshake is refused
  before it is accepted. An allowed response gets the fields of its decision, on any status but 3xx; a field of the
  same name that the app wrote itself stays as it is.
- Every request counts, whatever the app answers; a CORS preflight does not, a plain OPTIONS does.
- A request is charged once, however often the middleware stands in its way with one limiter. The decision is in
  `scope["limen.decision"]`. Two limiters that have a rule in common charge it twice: that is warned of.
- Browsers show a refusal to a script only with CORS headers, so put the CORS layer *outside* of this one.
"""

from __future__ import annotations

import inspect
import logging
import random
import time
from collections.abc import Iterable
from typing import Protocol

from limen.adapters.asgi_request import has_origin, is_preflight, request_from_scope
from limen.adapters.asgi_types import App, Message, Receive, Scope, Send, refuse
from limen.adapters.cors import RawHeaders, exposed
from limen.adapters.http import DEFAULT_DIALECTS, denial, rate_fields
from limen.adapters.http import dialects as writers_of
from limen.adapters.identity import BadIdentity, Identify, PeerAddress, guarded, nobody
from limen.adapters.problem import problem
from limen.core.decision import Decision
from limen.errors import UsageError
from limen.rules.client_ip import networks, parse_address
from limen.rules.path import canonical_path
from limen.rules.request import Request

__all__ = ["RateLimitMiddleware"]

log = logging.getLogger(__name__)

DECISION = "limen.decision"
CHARGED = "limen.charged"


class RequestLimiter(Protocol):
    """What the middleware needs of an `AsyncLimiter`."""

    async def check_request(self, request: Request) -> Decision: ...


class RateLimitMiddleware:
    """An ASGI app that asks `limiter` before it calls `app`.

    Args:
        app: the ASGI app behind it.
        limiter: an `AsyncLimiter`; whoever made it starts and closes it.
        identify: gives the verified identity of a request from its ASGI scope. It is a plain function that reads what
            is there already. One that raises is logged, and the request has no identity. Without it, or without an
            identity, the client is the address.
        trusted_proxies: networks of our own proxies, whose X-Forwarded-For is believed.
        trust_unix: whoever speaks over a Unix socket is one of our proxies.
        dialects: of the response fields: `ietf-11`, `legacy`, `github`, `none`.
        exempt: what is never counted: paths (`/healthz`) and networks or addresses (`127.0.0.1`).

    Raises:
        UsageError: a limiter or an `identify` that cannot work here, an unknown dialect, a network that is none.
    """

    def __init__(
        self,
        app: App,
        limiter: RequestLimiter,
        identify: Identify | None = None,
        *,
        trusted_proxies: Iterable[str] = (),
        trust_unix: bool = False,
        dialects: Iterable[str] = DEFAULT_DIALECTS,
        exempt: Iterable[str] = (),
    ) -> None:
        if not hasattr(limiter, "__aenter__"):
            raise UsageError(f"an ASGI app needs an AsyncLimiter; a {type(limiter).__name__} would block the loop")
        if identify is not None and _is_coroutine(identify):
            raise UsageError("identify must be a plain function that reads what is in the scope, not a coroutine")
        self.app = app
        self.limiter = limiter
        self.identify = guarded(identify) if identify else nobody
        self.address = PeerAddress(trusted_proxies, trust_unix)
        self._writers = writers_of(dialects)
        self._exempt = _Exempt(exempt)
        self._warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or self._passes(scope):
            await self.app(scope, receive, send)
            return
        identity = self.identify(scope)
        if isinstance(identity, BadIdentity):
            await refuse(scope, receive, send, problem(400, identity.detail))
            return
        request = request_from_scope(scope, identity, self.address(scope))
        if self._exempt and self._exempt.covers(request):
            await self.app(scope, receive, send)
            return
        await self._limited(request, scope, receive, send)

    def _passes(self, scope: Scope) -> bool:
        """Whether the request was charged by this limiter already, or is a CORS preflight."""
        charged = scope.get(CHARGED)
        if charged and any(limiter is self.limiter for limiter in charged):
            return True
        if charged and not self._warned:
            self._warn_of_rules_in(charged)
        return is_preflight(scope)

    def _warn_of_rules_in(self, charged: Iterable[RequestLimiter]) -> None:
        """Say that other limiters, which have charged the request already, have rules of this one."""
        both = {rule for limiter in charged for rule in shared_rules(limiter, self.limiter)}
        if both:
            self._warned = True
            log.warning(
                "a request passes two limiters that both have rule %s and is charged twice; use one limiter for both",
                ", ".join(sorted(both)[:3]),
            )

    async def _limited(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        decision = await self.limiter.check_request(request)
        scope[DECISION] = decision
        scope[CHARGED] = (*scope.get(CHARGED, ()), self.limiter)
        if decision.allowed:
            await self.app(scope, receive, self._telling(send, decision, scope))
            return
        refusal = denial(decision, self._writers, jitter=random.random(), now_s=time.time())
        await refuse(scope, receive, _Exposing(send, has_origin(scope), ()), refusal)

    def _telling(self, send: Send, decision: Decision, scope: Scope) -> Send:
        """A `send` that adds the fields of the decision, as it was when the request was decided."""
        fields = rate_fields(decision, self._writers, time.time())
        if not fields or scope["type"] != "http":
            return send
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
        return _Exposing(send, has_origin(scope), raw)


def shared_rules(one: RequestLimiter, other: RequestLimiter) -> set[str]:
    """The rules that two limiters count in the same buckets. A `memory://` has buckets of its own."""
    if "memory" in (getattr(one, "store_state", "memory"), getattr(other, "store_state", "memory")):
        return set()
    mine, theirs = (limiter.ruleset.by_id for limiter in (one, other))  # type: ignore[attr-defined] # it has a store
    return {rule for rule in mine.keys() & theirs.keys() if mine[rule].match.document == theirs[rule].match.document}


class _Exposing:
    """A `send` that adds fields to the start of a response and lets scripts of other origins read them."""

    __slots__ = ("_cross_origin", "_fields", "_send")

    def __init__(self, send: Send, cross_origin: bool, fields: Iterable[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._cross_origin = cross_origin
        self._fields = fields

    async def __call__(self, message: Message) -> None:
        if message["type"] in STARTS and not 300 <= message["status"] < 400:
            headers = with_fields(message.get("headers", ()), self._fields)
            ours = [name for name, _ in headers if name in READABLE]
            message = {**message, "headers": exposed(headers, dict.fromkeys(ours), self._cross_origin)}
        await self._send(message)


STARTS = frozenset({"http.response.start", "websocket.http.response.start"})
READABLE = frozenset(
    {b"ratelimit", b"ratelimit-policy", b"retry-after"}
    | {b"x-ratelimit-" + name for name in (b"limit", b"remaining", b"reset", b"used", b"resource")}
)


def with_fields(headers: Iterable[tuple[bytes, bytes]], fields: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """`headers`, names in lower case, and those of `fields` that are not among them."""
    written = [(name.lower(), value) for name, value in headers]
    names = {name for name, _ in written}
    return written + [field for field in fields if field[0] not in names]


class _Exempt:
    """Paths and networks that are never counted."""

    def __init__(self, entries: Iterable[str]) -> None:
        entries = (entries,) if isinstance(entries, str) else tuple(entries)
        self._paths = {canonical_path(entry) for entry in entries if entry.startswith("/")}
        self._networks = networks(entry for entry in entries if not entry.startswith("/"))

    def __bool__(self) -> bool:
        return bool(self._paths or self._networks)

    def covers(self, request: Request) -> bool:
        if self._paths and canonical_path(request.path) in self._paths:
            return True
        address = parse_address(request.ip) if self._networks and request.ip else None
        return address is not None and any(address in network for network in self._networks)


def _is_coroutine(identify: Identify) -> bool:
    return inspect.iscoroutinefunction(identify) or inspect.iscoroutinefunction(type(identify).__call__)
