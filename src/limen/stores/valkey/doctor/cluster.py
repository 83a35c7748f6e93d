"""Ask a cluster who decides."""

from __future__ import annotations

from limen.errors import StoreError
from limen.stores.valkey.doctor.ask import connected
from limen.stores.valkey.doctor.finding import Finding, fail, ok, unreachable, warn
from limen.stores.valkey.endpoint import Endpoint, Target
from limen.stores.valkey.topology import SLOT_COUNT, SLOTS_COMMAND, Owners, owners_of, parse_slots

__all__ = ["owners"]


async def owners(target: Target) -> tuple[list[Finding], list[Endpoint]]:
    """All primaries by the word of the first node that answers; whether they have all slots."""
    silent: list[Finding] = []
    for seed in target.seeds:
        try:
            slots = await _slots(seed)
        except StoreError as error:
            silent.append(warn("cluster", str(error), "start that node, or take it out of the store URL"))
            continue
        found = sorted(owners_of(slots))
        return [*silent, _coverage(slots)], [target.login.at(*address) for address in found]
    said = "; ".join(finding.sentence for finding in silent)
    return [unreachable("cluster", f"no node of the store URL answers: {said}", "name some that run")], []


async def _slots(seed: Endpoint) -> Owners:
    async with connected(seed) as link:
        return parse_slots(await link.ask(SLOTS_COMMAND), seed.address)


def _coverage(slots: Owners) -> Finding:
    count, missing = len(owners_of(slots)), slots.count(None)
    if not missing:
        return ok("cluster", f"{count} primaries have all {SLOT_COUNT} slots")
    sentence = f"{missing} of {SLOT_COUNT} slots belong to nobody: their clients are decided without the store"
    return fail("cluster", sentence, "look at it with: valkey-cli --cluster check")
