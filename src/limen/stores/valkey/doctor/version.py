"""Whether a server is new enough. Pure."""

from __future__ import annotations

import re

from limen.stores.valkey.doctor.facts import Facts
from limen.stores.valkey.doctor.finding import Finding, fail, ok, warn

__all__ = ["version"]

OLDEST = (7, 0)
"""The first with `PEXPIRE … NX`."""
MENDED = {
    "redis": {(7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2},
    "valkey": {(7, 2): 11, (8, 0): 6, (8, 1): 4},
}
"""For each series, the patch that closes CVE-2025-49844: a script that runs any code on the server."""


def version(facts: Facts) -> Finding:
    name, text = facts.hello.get("server", "a server"), facts.hello.get("version", "of unknown version")
    numbers = tuple(int(number) for number in re.findall(r"\d+", text)[:3])
    if numbers < OLDEST:
        return fail("version", f"is {name} {text}, which is too old", "use Valkey, or Redis from 7.2")
    if _is_open(name, numbers):
        sentence = f"is {name} {text}, in which a script can run any code (CVE-2025-49844), unless it was patched"
        return warn("version", sentence, "update it, or ask its distribution")
    return ok("version", f"is {name} {text}")


def _is_open(name: str, numbers: tuple[int, ...]) -> bool:
    """Whether it has the fault by its number; a series without a patch has it, one that began later has not."""
    major, minor, patch = (*numbers, 0, 0)[:3]
    series, mended = (major, minor), MENDED.get(name, {})
    return bool(mended) and series <= max(mended) and patch < mended.get(series, patch + 1)
