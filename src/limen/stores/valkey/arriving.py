"""Getting to a server that decides: where it is now, a login, the script, and proof that it takes writes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from limen.errors import StoreError
from limen.stores.valkey.connect import open_link
from limen.stores.valkey.endpoint import Endpoint
from limen.stores.valkey.link import Link, Reply
from limen.stores.valkey.replies import ROLE, is_replica

__all__ = ["GIVE_UP_S", "Locate", "Place", "arrive"]

GIVE_UP_S = 1.0
"""How long a server may be silent before its connection is given up."""
LOGIN_S = (4.0, 8.0, 15.0)
"""How long the first, second, and each further attempt may take."""
FOUND_ANEW_S = (1.0, 2.0)
"""The same where another server may be the right one meanwhile."""

UNKNOWN = "an unknown server"

Locate = Callable[[], Awaitable[Endpoint]]
"""Finds out where the server is now. Raises `StoreError`."""


class Place:
    """Where a server is: always there, or wherever it is found."""

    def __init__(self, place: Endpoint | Locate) -> None:
        self.endpoint = place if isinstance(place, Endpoint) else Endpoint(UNKNOWN)
        """Where it was last."""
        self._locate = None if isinstance(place, Endpoint) else place

    @property
    def shard(self) -> str:
        """`host:port` of it, for errors and metrics; empty while nobody knows."""
        return "" if self.endpoint.host == UNKNOWN else str(self.endpoint.address)

    @property
    def can_change(self) -> bool:
        return self._locate is not None

    def patience_s(self, failures: int) -> float:
        """How long an attempt may take after so many that failed."""
        patience = FOUND_ANEW_S if self.can_change else LOGIN_S
        return patience[min(failures, len(patience) - 1)]

    async def find(self) -> Endpoint:
        """Where it is now.

        Raises:
            StoreError: nobody knows.
        """
        if self._locate is not None:
            self.endpoint = await self._locate()
        return self.endpoint

    async def has_changed(self) -> bool:
        """Whether it is elsewhere now. If nobody knows, it is not."""
        try:
            return self._locate is not None and await self._locate() != self.endpoint
        except StoreError:
            return False


async def arrive(endpoint: Endpoint, deadline_s: float, timeout_s: float, load: bytes) -> tuple[Link, Reply]:
    """A link to a server that takes writes, and what it answered to the script.

    Raises:
        StoreError: it is not there, not in time, or it is a replica.
    """
    link = await open_link(endpoint, deadline_s, timeout_s)
    try:
        loaded = await link.ask(load, GIVE_UP_S)
        role = await link.ask(ROLE, GIVE_UP_S)
    except BaseException:
        link.close()
        raise
    if is_replica(role):
        link.close()
        message = f"{endpoint} is a replica and takes no writes; its primary is looked for"
        raise StoreError(message, "read_only", str(endpoint.address))
    return link, loaded
