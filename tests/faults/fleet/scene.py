"""A fleet on a store, warm, with some seconds of undisturbed load behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.faults.fleet.fleet import Fleet
from tests.faults.fleet.spec import Load
from tests.topologies.servers import SLOT_COUNT, Cluster, Server

__all__ = ["MIX", "RULES", "begun", "first_slots"]

RULES: list[dict[str, Any]] = [
    {"id": "api", "limit": "20/second burst 100"},
    {"id": "login", "limit": "10/second burst 50", "on_failure": "closed"},
]
MIX = [("api", 0.9, 1), ("login", 0.1, 1)]
WARM_S = 0.5


def first_slots(store: Cluster | Server) -> Sequence[int]:
    """The first slot of each shard of a store that was just started; none for a single server."""
    if isinstance(store, Server):
        return ()
    count = len(store.primaries)
    return [at * SLOT_COUNT // count for at in range(count)]


def begun(store: Cluster | Server, folder: Path, before_s: float, *, load: Load | None = None, **options: Any) -> Fleet:
    """A fleet under load. What happened until now is the phase `before`; whoever calls names the next.

    It is to be used as a context manager, which is entered already: `with begun(…) as fleet`.
    """
    url = f"valkey://{store.address}" if isinstance(store, Server) else store.url
    rules = options.pop("rules", RULES)
    fleet = Fleet(url, rules, folder, load=load or Load(mix=MIX), shards=first_slots(store), **options)
    try:
        fleet.all("start")
        fleet.load()
        fleet.phase("warm")
        fleet.more(WARM_S)
        fleet.until(fleet.up, "every shard is up")
        fleet.phase("before")
        fleet.more(before_s)
    except BaseException:
        fleet.__exit__(None, None, None)
        raise
    return fleet
