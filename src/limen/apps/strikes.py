"""How often an address may send a wrong token to the admin API: a rule like any other, in this process."""

from __future__ import annotations

import logging

from limen.engine.clock import Clock
from limen.engine.limiter import Limiter
from limen.rules.client_ip import prefix_key
from limen.rules.model import Rule

__all__ = ["Strikes"]

log = logging.getLogger("limen")

WRONG = Rule("wrong-admin-tokens", limit="10/minute")
LINES = Rule("lines-about-them", limit="1/minute")


class Strikes:
    """Called with an address that sent a wrong token. An IPv6 address counts with its /64."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._limiter = Limiter("memory://", [WRONG, LINES], clock=clock)

    def __call__(self, address: str) -> float | None:
        """Seconds until the address may send another; None when it may at once."""
        place = prefix_key(address)
        decision = self._limiter.check(place, WRONG.id)
        if decision.allowed:
            return None
        if self._limiter.check("the log", LINES.id).allowed:
            log.warning("more than 10 wrong tokens a minute come to the admin API, the last from %s", place)
        return (decision.retry_after_ms or 0) / 1000
