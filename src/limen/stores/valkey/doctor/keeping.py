"""What a server forgets: when its memory is full, at a restart, at a failover. Pure.

A bucket that is forgotten is full again: its client may spend the whole limit once more. A server that does not tell
(the user may not ask) is not judged.
"""

from __future__ import annotations

from limen.stores.valkey.doctor.facts import Facts
from limen.stores.valkey.doctor.finding import Finding, fail, ok, warn

__all__ = ["eviction", "persistence", "replicas"]


def eviction(facts: Facts) -> Finding | None:
    """Whose bucket goes when memory is full."""
    policy, memory = facts.info.get("maxmemory_policy"), facts.count("maxmemory")
    if policy is None:
        return None
    if policy not in ("volatile-ttl", "noeviction"):
        danger = "under pressure it drops buckets of clients that are at their limit, and they begin afresh"
        return warn("eviction", f"has maxmemory-policy {policy}: {danger}", "set it to volatile-ttl")
    if not memory:
        sentence = f"has maxmemory 0 and the policy {policy}: nothing is dropped while the machine has memory"
        return ok("eviction", sentence, "set maxmemory and volatile-ttl if it should end before that")
    if policy == "noeviction":
        danger = "when memory is full, every decision is made without it"
        return warn("eviction", f"has maxmemory-policy noeviction: {danger}", "set it to volatile-ttl")
    return ok("eviction", f"has {memory} bytes, and drops the bucket first that is full soonest")


def persistence(facts: Facts) -> Finding | None:
    """What a restart forgets, and what it costs to remember."""
    if "aof_enabled" not in facts.info:
        return None
    snapshots = facts.config.get("save")
    if snapshots:
        sentence = f'has save "{snapshots}": it forks for each snapshot, and decisions wait meanwhile'
        return warn("persistence", sentence, 'set save ""; appendonly yes keeps buckets over a restart')
    if facts.info["aof_enabled"] == "1" or facts.count("connected_slaves"):
        return ok("persistence", "keeps buckets over a restart")
    sentence = "forgets all buckets at a restart, and every client begins afresh"
    return warn("persistence", sentence, "set appendonly yes, or give it a replica")


def replicas(facts: Facts) -> Finding | None:
    """What a failover forgets."""
    if "connected_slaves" not in facts.info:
        return None
    count = facts.count("connected_slaves")
    stops = facts.count("min-replicas-to-write") > 0 or "min_slaves_good_slaves" in facts.info
    if not count and stops:
        sentence = "has min-replicas-to-write and no replica: every decision is made without it"
        return fail("replicas", sentence, "start a replica, or set min-replicas-to-write 0")
    if not count or stops:
        return ok("replicas", f"has {count or 'no'} replica{'s' if count > 1 else ''}")
    sentence = f"has {count} and goes on when they are cut off: a failover forgets what it counts from then on"
    return warn("replicas", sentence, "set min-replicas-to-write 1 and min-replicas-max-lag 1")
