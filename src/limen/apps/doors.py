"""The ASGI apps of Limen's processes, put together from adapters."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate

from limen.adapters.asgi import RateLimitMiddleware
from limen.adapters.asgi_types import App, Message, Receive, Scope, Send, refuse
from limen.adapters.check_api import CheckApi
from limen.adapters.edge import EdgeChecks
from limen.adapters.problem import problem
from limen.adapters.proxy import ReverseProxy
from limen.admin.http_api import admin_app
from limen.admin.standing_service import StandingService
from limen.apps.backend import Backend
from limen.apps.guarding import Guarding
from limen.apps.way_in import WayIn
from limen.core.decision import Decision
from limen.engine.aio import AsyncLimiter

__all__ = ["gateway_door", "ops_door", "service_door"]


ADMIN_PATHS = ("/admin", "/openapi.json")
CLOSE = (b"connection", b"close")


class Dated:
    """An ASGI app whose responses have one Date (RFC 9110, 6.6.1): that of the origin, where it sent one.

    While the process drains, each is the last of its connection, so that the next request goes elsewhere.
    """

    def __init__(self, app: App, backend: Backend) -> None:
        self.app = app
        self._backend = backend

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                if not any(name == b"date" for name, _ in message["headers"]):
                    message["headers"] = [*message["headers"], (b"date", formatdate(usegmt=True).encode())]
                if self._backend.draining:
                    message["headers"] = [*message["headers"], CLOSE]
            await send(message)

        await self.app(scope, receive, dated)


class _WhenOpen:
    """An ASGI app that is made when there are rules. Until then another one stands in for it.

    Raises:
        UsageError: it cannot be made, by the settings.
    """

    def __init__(self, backend: Backend, make: Callable[[AsyncLimiter], App], before: App) -> None:
        make(backend.trial())
        self._app: App | None = None
        self._backend = backend
        self._make = make
        self._before = before

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None and self._backend.is_open:
            self._app = self._make(self._backend.limiter)
        await (self._app or self._before)(scope, receive, send)


def _when_open(backend: Backend, make: Callable[[AsyncLimiter], App], before: App) -> App:
    return make(backend.limiter) if backend.is_open else _WhenOpen(backend, make, before)


async def _no_rules(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse everything: nobody knows yet who may pass."""
    detail = "This process has no rules yet. It takes over by itself as soon as its rules database answers."
    await refuse(scope, receive, send, problem(503, detail, headers=[("retry-after", "1")]))


def gateway_door(backend: Backend, proxy: ReverseProxy) -> App:
    """The gateway: odd requests are refused, clients are held to their limits, the rest goes to the upstream."""
    settings = backend.settings

    def limited(limiter: AsyncLimiter) -> App:
        return RateLimitMiddleware(
            proxy,
            limiter,
            backend.identify(),
            trusted_proxies=settings.trusted_proxies,
            dialects=settings.dialects,
        )

    door = _when_open(backend, limited, _no_rules)
    return Dated(EdgeChecks(door, [settings.api_key_header]), backend)


def ops_door(backend: Backend) -> App:
    """Health, readiness, metrics, and the check API."""

    def checks(limiter: AsyncLimiter) -> App:
        identify = backend.identify()
        return CheckApi(limiter, ready=backend.ready, metrics=backend.render_metrics, identify=identify)

    async def before(scope: Scope, receive: Receive, send: Send) -> None:
        await (_no_rules if scope.get("path", "").startswith("/v1/") else health)(scope, receive, send)

    health = checks(backend.trial())
    return Dated(_when_open(backend, checks, before), backend)


def service_door(backend: Backend, way_in: WayIn, guarding: Guarding) -> App:
    """The service: the check API, and the admin API beside it, for those who are let in."""
    standing = StandingService(backend.repository, backend.saying.catch_up)
    api = admin_app(guarding.service, _Buckets(backend), way_in.access, way_in.tokens, guarding.proposing, standing)
    admin = Dated(api, backend)
    ops = ops_door(backend)

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        app = admin if any(path == prefix or path.startswith(prefix + "/") for prefix in ADMIN_PATHS) else ops
        await app(scope, receive, send)

    return door


class _Buckets:
    """The buckets of a limiter that may not be there yet. Both raise `RulesUnavailable` then."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def reset(self, client: str, rule: str | None = None) -> None:
        await self._backend.limiter.reset(client, rule)

    async def grant(self, client: str, rule: str, tokens: int, seconds: float = 3600.0) -> Decision:
        return await self._backend.limiter.grant(client, rule, tokens, seconds)
