"""`limen up`: everything in one process and one store beside it, to try and to develop with."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from limen.adapters.proxy import ReverseProxy
from limen.admin.service import AdminService
from limen.apps.admission import Admission
from limen.apps.backend import Backend
from limen.apps.demo import banner, demo_upstream, seed_demo
from limen.apps.doors import gateway_door, service_door
from limen.apps.embedded import embedded_store
from limen.apps.guarding import Guarding
from limen.apps.listening import bound
from limen.apps.repositories import repository_for
from limen.apps.serving import serving, stop_signal
from limen.apps.settings import Listen, Shared
from limen.apps.way_in import WayIn, require_way_in
from limen.rules.model import Rule

__all__ = ["run_up"]


async def run_up(
    settings: Shared,
    listen: Listen,
    admin: Listen,
    data: Path,
    *,
    upstream: str | None,
    rules: Sequence[Rule],
    admission: Admission,
) -> None:
    """A gateway and a service on an embedded store, until it is told to stop.

    Args:
        settings: an empty `store` means the embedded one.
        data: the folder for the store and the rules.
        upstream: what the gateway protects; a demo API when there is none.
        rules: are put into the database first.
        admission: who may use the admin API.
    """
    await require_way_in(settings, admin, admission)
    stop = stop_signal()
    with contextlib.ExitStack() as stack:
        listener, admin_listener, demo_listener = (
            stack.enter_context(bound(each)) for each in (listen, admin, Listen(port=0))
        )
        demo = Listen(port=demo_listener.getsockname()[1])
        store = settings.store or stack.enter_context(embedded_store(data / "store"))
        async with (
            Backend(replace(settings, store=store), "up") as backend,
            WayIn(backend, admin, admission) as way_in,
            Guarding(backend) as guarding,
        ):
            await _prepare(backend, rules)
            async with ReverseProxy(upstream or demo.url, trusted_proxies=settings.trusted_proxies) as proxy:
                doors: list[tuple[object, Listen, socket.socket]] = [
                    (gateway_door(backend, proxy), listen, listener),
                    (service_door(backend, way_in, guarding), admin, admin_listener),
                    (demo_upstream, demo, demo_listener),
                ]
                async with serving(stop, *doors):
                    shown = upstream or "a demo API"
                    print(banner(listen.url, admin.url, shown, store, way_in.access.needs_token), flush=True)
                    await stop.wait()


async def _migrate(settings: Shared) -> None:
    """Its own database is nobody else's: an older one is brought up to date without being asked to."""
    async with repository_for(settings) as repository:
        await repository.migrate()


async def _prepare(backend: Backend, rules: Sequence[Rule]) -> None:
    """Rules to begin with: those given, else those that are there, else the demo's."""
    service = AdminService(backend.repository, changed=backend.catch_up)
    await service.apply({rule.id: rule.to_document() for rule in rules})
    await seed_demo(service)
