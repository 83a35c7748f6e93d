"""The commands that keep running. What they need is imported when they run: `limen --help` must be quick."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limen.apps.cli.guard_options import Guarded, guard_settings
from limen.apps.cli.options import Admitting, Deciding, Tls, Whole, admission, listen, settings

if TYPE_CHECKING:
    import asyncio

__all__ = ["gateway", "service", "up"]

NOTHING_SET = Deciding()
NOBODY = Admitting()
NO_TLS = Tls()
GUARDED = Guarded()


def up(
    *,
    upstream: str | None = None,
    rules: Path | None = None,
    port: Whole = 8080,
    admin_port: Whole = 8090,
    host: str = "127.0.0.1",
    data: Path = Path(".limen"),
    store: str = "",
    admitting: Admitting = NOBODY,
    guarded: Guarded = GUARDED,
    deciding: Deciding = NOTHING_SET,
    tls: Tls = NO_TLS,
) -> None:
    """Run everything on this machine: an embedded store, rules in SQLite, gateway, service and admin API.

    Args:
        upstream: URL of the API to protect; by default a demo API.
        rules: A YAML file whose rules are put in force first.
        port: Port of the gateway.
        admin_port: Port of the service and the admin API.
        host: Address to listen on.
        data: Folder for the store and the rules.
        store: URL of a store to use instead of the embedded one.
    """
    from limen.apps.up import run_up
    from limen.rules.parse import rules_from_text

    first = rules_from_text(rules.read_bytes(), str(rules)) if rules else []
    data.mkdir(parents=True, exist_ok=True)
    shared = settings(
        store, f"sqlite:///{data / 'rules.db'}", deciding, state=data, drain_s=0, guard=guard_settings(guarded)
    )
    door, admin, who = listen(host, port, tls), listen(host, admin_port), admission(admitting)
    _run(run_up(shared, door, admin, data, upstream=upstream, rules=first, admission=who))


def gateway(
    *,
    upstream: str,
    store: str,
    rules_db: str,
    port: Whole = 8080,
    host: str = "127.0.0.1",
    ops_port: Whole | None = None,
    drain_s: float = 1.0,
    deciding: Deciding = NOTHING_SET,
    tls: Tls = NO_TLS,
) -> None:
    """Run a reverse proxy with the limiter inside.

    Args:
        upstream: URL of the API to protect.
        store: URL of the counter store: valkey://host:port/0, valkeys:// for TLS, memory:// for one process.
        rules_db: URL of the rules database: sqlite:///path or postgresql://….
        port: Port to listen on.
        host: Address to listen on.
        ops_port: Port for /healthz, /readyz, /metrics and the check API, on this machine only; by default none.
        drain_s: How long it goes on serving when it is told to stop, while /readyz says no.
    """
    from limen.apps.processes import run_gateway

    ops = None if ops_port is None else listen("127.0.0.1", ops_port)
    shared = settings(store, rules_db, deciding, drain_s=drain_s)
    _run(run_gateway(shared, upstream, listen(host, port, tls), ops))


def service(
    *,
    store: str,
    rules_db: str,
    port: Whole = 8090,
    host: str = "127.0.0.1",
    admitting: Admitting = NOBODY,
    guarded: Guarded = GUARDED,
    drain_s: float = 1.0,
    deciding: Deciding = NOTHING_SET,
    tls: Tls = NO_TLS,
) -> None:
    """Run the check API and the admin API.

    Args:
        store: URL of the counter store: valkey://host:port/0, valkeys:// for TLS, memory:// for one process.
        rules_db: URL of the rules database: sqlite:///path or postgresql://….
        port: Port to listen on.
        host: Address to listen on.
        drain_s: How long it goes on serving when it is told to stop, while /readyz says no.
    """
    from limen.apps.processes import run_service

    shared = settings(store, rules_db, deciding, drain_s=drain_s, guard=guard_settings(guarded))
    _run(run_service(shared, listen(host, port, tls), admission(admitting)))


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run until it is told to stop, on the faster event loop where there is one."""
    import asyncio

    with asyncio.Runner(loop_factory=_event_loop()) as runner:
        runner.run(work)


def _event_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The faster event loop, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
