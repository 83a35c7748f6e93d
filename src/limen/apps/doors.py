"""The ASGI apps of Limen's processes, put together from adapters."""

from __future__ import annotations

from email.utils import formatdate

from limen.adapters.asgi import RateLimitMiddleware
from limen.adapters.asgi_types import App, Message, Receive, Scope, Send
from limen.adapters.check_api import CheckApi
from limen.adapters.edge import EdgeChecks
from limen.adapters.proxy import ReverseProxy
from limen.admin.http_api import admin_app
from limen.admin.service import AdminService
from limen.apps.backend import Backend

__all__ = ["gateway_door", "ops_door", "service_door"]


class Dated:
    """An ASGI app whose responses have one Date (RFC 9110, 6.6.1): that of the origin, where it sent one."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def dated(message: Message) -> None:
            if message["type"] == "http.response.start" and not any(name == b"date" for name, _ in message["headers"]):
                message["headers"] = [*message["headers"], (b"date", formatdate(usegmt=True).encode())]
            await send(message)

        await self.app(scope, receive, dated)


ADMIN_PATHS = ("/admin", "/openapi.json")


def gateway_door(backend: Backend, proxy: ReverseProxy) -> App:
    """The gateway: odd requests are refused, clients are held to their limits, the rest goes to the upstream."""
    settings = backend.settings
    limited = RateLimitMiddleware(
        proxy,
        backend.limiter,
        backend.identify(),
        trusted_proxies=settings.trusted_proxies,
        dialects=settings.dialects,
    )
    return Dated(EdgeChecks(limited, [settings.api_key_header]))


def ops_door(backend: Backend) -> App:
    """Health, readiness, metrics, and the check API."""
    return Dated(CheckApi(backend.limiter, ready=backend.ready, metrics=backend.render_metrics))


def service_door(backend: Backend, token: str | None) -> App:
    """The service: the check API, and the admin API beside it."""
    service = AdminService(backend.repository, changed=backend.catch_up)
    admin = Dated(admin_app(service, backend.limiter, token))
    ops = ops_door(backend)

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        app = admin if any(path == prefix or path.startswith(prefix + "/") for prefix in ADMIN_PATHS) else ops
        await app(scope, receive, send)

    return door
