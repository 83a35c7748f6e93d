"""One look at the store when a process starts: what is set there that will make limits mean less than they say."""

from __future__ import annotations

import logging

from limen.stores.valkey.doctor.examine import dangers
from limen.stores.valkey.url import parse_target

__all__ = ["warn_of_store"]

log = logging.getLogger("limen.store")


async def warn_of_store(url: str) -> None:
    """Log what is dangerous about a store. Nothing waits for this, and nothing depends on it."""
    if url == "memory://":
        return
    for finding in await dangers(parse_target(url)):
        log.warning("%s %s; %s", finding.about, finding.sentence, finding.advice)
