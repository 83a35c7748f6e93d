"""The long-running commands: gateway and service."""

from __future__ import annotations

import contextlib

from limen.adapters.proxy import ReverseProxy
from limen.apps.admission import Admission
from limen.apps.backend import Backend
from limen.apps.doors import gateway_door, ops_door, service_door
from limen.apps.guarding import Guarding
from limen.apps.listening import bound
from limen.apps.serving import Stop, serving, stop_signal
from limen.apps.settings import Listen, Shared
from limen.apps.way_in import WayIn, require_way_in

__all__ = ["run_gateway", "run_service"]


async def run_gateway(settings: Shared, upstream: str, listen: Listen, ops: Listen | None) -> None:
    """A reverse proxy with the limiter inside, until it is told to stop."""
    stop = stop_signal()
    doors = [(listen, bound(listen))] + ([(ops, bound(ops))] if ops else [])
    with contextlib.ExitStack() as sockets:
        for _, listener in doors:
            sockets.enter_context(listener)
        proxy = ReverseProxy(upstream, trusted_proxies=settings.trusted_proxies)
        async with Backend(settings) as backend, proxy:
            apps = [gateway_door(backend, proxy), ops_door(backend)]
            async with serving(stop, *[(app, *door) for app, door in zip(apps, doors, strict=False)]):
                print(f"gateway on {listen.url} in front of {upstream}", flush=True)
                await _drained(backend, stop)


async def run_service(settings: Shared, listen: Listen, admission: Admission) -> None:
    """The check API and the admin API, until it is told to stop."""
    await require_way_in(settings, listen, admission)
    stop = stop_signal()
    with bound(listen) as listener:
        async with (
            Backend(settings, "service") as backend,
            WayIn(backend, listen, admission) as way_in,
            Guarding(backend) as guarding,
            serving(stop, (service_door(backend, way_in, guarding), listen, listener)),
        ):
            print(f"service on {listen.url}", flush=True)
            await _drained(backend, stop)


async def _drained(backend: Backend, stop: Stop) -> None:
    """Wait until it is told to stop, and then until traffic had time to go elsewhere."""
    await stop.wait()
    backend.drain()
    await stop.hurried(backend.settings.drain_s)
