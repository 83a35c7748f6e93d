"""Ask sentinels who the primary is, and whether they could name another."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import hiredis

from limen.errors import StoreError
from limen.stores.valkey.doctor.ask import ask, connected
from limen.stores.valkey.doctor.finding import Finding, fail, ok, unreachable, warn
from limen.stores.valkey.endpoint import Address, Endpoint, Target

__all__ = ["primary"]


class Word(NamedTuple):
    """What one sentinel says."""

    finding: Finding
    primary: Address | None = None


async def primary(target: Target) -> tuple[list[Finding], list[Endpoint]]:
    """The primary, when a sentinel names one; what each sentinel says."""
    words = await asyncio.gather(*(_word(seed, target.name) for seed in target.seeds))
    found = [word.finding for word in words]
    named = sorted({word.primary for word in words if word.primary})
    if not named:
        return [*found, _nobody(found, target.name)], []
    found = [_one_of_several(finding) for finding in found]
    found += [_disagreement(named)] if len(named) > 1 else []
    return found, [target.login.at(*address) for address in named]


def _nobody(found: list[Finding], name: str) -> Finding:
    answered = any(not finding.unreachable for finding in found)
    kind = fail if answered else unreachable
    return kind("sentinel", "no sentinel names a primary", f"see that the sentinels run and watch {name!r}")


def _one_of_several(finding: Finding) -> Finding:
    """A sentinel that does not run is a danger, while others do its work."""
    return finding._replace(status="warn", unreachable=False) if finding.unreachable else finding


def _disagreement(named: list[Address]) -> Finding:
    sentence = f"they name {len(named)} primaries: {', '.join(map(str, named))}"
    return warn("sentinel", sentence, "a failover is under way, or the network is parted; look again")


async def _word(sentinel: Endpoint, name: str) -> Word:
    try:
        async with connected(sentinel) as link:
            return _understood(
                sentinel,
                await ask(link, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name),
                await ask(link, "SENTINEL", "CKQUORUM", name),
            )
    except StoreError as error:
        return Word(unreachable("sentinel", str(error), "start it, or take it out of the store URL"))


def _understood(sentinel: Endpoint, named: object, quorum: object) -> Word:
    about = f"{sentinel.address}"
    if not isinstance(named, list):
        return Word(fail("sentinel", f"{about} knows no primary of that name", "mend the name in the store URL"))
    address = Address(named[0].decode(), int(named[1]))
    if isinstance(quorum, hiredis.ReplyError):
        sentence = f"{about} names {address}, and could not agree on another: {quorum}"
        return Word(warn("sentinel", sentence, "start more sentinels"), address)
    return Word(ok("sentinel", f"{about} names {address}, and there is a quorum for a failover"), address)
