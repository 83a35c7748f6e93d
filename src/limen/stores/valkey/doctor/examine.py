"""Examine a store: one server, every primary of a cluster, or sentinels and the primary that they name."""

from __future__ import annotations

import asyncio

from limen.errors import StoreError
from limen.stores.valkey.doctor.ask import connected, dangers_of, facts_of, mode_of
from limen.stores.valkey.doctor.cluster import owners
from limen.stores.valkey.doctor.finding import Finding, fail, unreachable
from limen.stores.valkey.doctor.judge import judge
from limen.stores.valkey.doctor.keeping import eviction
from limen.stores.valkey.doctor.needs import acl_rules
from limen.stores.valkey.doctor.rights import permissions
from limen.stores.valkey.doctor.sentinels import primary
from limen.stores.valkey.endpoint import Endpoint, Target

__all__ = ["dangers", "examine"]

MODES = {"single": "standalone", "cluster": "cluster", "sentinel": "standalone"}
"""What the servers of each kind of store call themselves."""
WRITTEN = {"cluster": "valkey+cluster://host,host", "sentinel": "valkey+sentinel://host,host/name"}


async def examine(target: Target, deadline_ms: float) -> list[Finding]:
    """Everything that there is to say about a store.

    Args:
        deadline_ms: how long a decision waits for it.
    """
    found, servers = await _servers(target)
    of_servers = await asyncio.gather(*(_examined(server, target, deadline_ms) for server in servers))
    return [*found, *(finding for findings in of_servers for finding in findings)]


async def dangers(target: Target) -> list[Finding]:
    """What a process should say when it starts: commands that it lacks, and buckets that will be dropped.

    What cannot be found out is left out: the user may not be allowed to ask, and a server that is away is told of by
    those who need it.
    """
    _, servers = await _servers(target)
    of_servers = await asyncio.gather(*(_dangers(server) for server in servers))
    return [finding for findings in of_servers for finding in findings]


async def _dangers(server: Endpoint) -> list[Finding]:
    try:
        async with connected(server) as link:
            facts = await dangers_of(link, str(server))
    except StoreError:
        return []
    may, drops = permissions(facts), eviction(facts)
    found = [may] if may.status == "fail" else []
    found += [drops] if drops is not None and drops.status == "warn" else []
    return [finding._replace(about=facts.server) for finding in found]


async def _servers(target: Target) -> tuple[list[Finding], list[Endpoint]]:
    """Those that decide, and what there is to say about how they are found."""
    if target.kind == "cluster":
        return await owners(target)
    if target.kind == "sentinel":
        return await primary(target)
    return [], [target.login]


async def _examined(server: Endpoint, target: Target, deadline_ms: float) -> list[Finding]:
    about = str(server)
    try:
        async with connected(server) as link:
            mode = await mode_of(link)
            if mode != MODES[target.kind]:
                return [_another_kind(mode)._replace(about=about)]
            return judge(await facts_of(link, about), deadline_ms)
    except StoreError as error:
        return [unreachable("reachable", str(error), _advice(error))]


def _another_kind(mode: str) -> Finding:
    written = WRITTEN.get(mode, "valkey://host:port/0")
    return fail("kind", f"runs as a {mode} server, and the store URL says otherwise", f"write it as {written}")


def _advice(error: StoreError) -> str:
    if "NOPERM" in str(error).upper() or "permission" in str(error):
        return f"give its user these rights: {acl_rules()}"
    return "see that it runs, that the address is right, and that nothing lies between"
