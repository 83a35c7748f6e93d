"""Where the primary is, from sentinels. Any of them may know; whether it is right, the server itself says (ROLE)."""

from __future__ import annotations

import asyncio
from typing import Any

import hiredis

from limen.errors import StoreError
from limen.stores.valkey.connect import open_link
from limen.stores.valkey.endpoint import Endpoint, Target
from limen.stores.valkey.link import Reply
from limen.stores.valkey.replies import classify, store_error

__all__ = ["Sentinels", "parse_primary"]

PATIENCE_S = 0.5
"""How long one sentinel may take to connect, and to answer."""


class Sentinels:
    """Asks sentinels in turn, first the one that knew last time.

    Args:
        target: who the sentinels are, the name of the primary, and how to log in to it.
    """

    def __init__(self, target: Target) -> None:
        self._seeds = list(target.seeds)
        self._login = target.login
        self._name = target.name

    async def locate(self) -> Endpoint:
        """The primary.

        Raises:
            StoreError: no sentinel can be asked, or none knows it.
        """
        complaints = []
        for seed in list(self._seeds):
            try:
                host, port = parse_primary(await self._asked(seed), self._name, seed)
            except StoreError as error:
                complaints.append(str(error))
                continue
            self._seeds.sort(key=lambda each: each is not seed)
            return self._login.at(host, port)
        raise StoreError(f"no sentinel knows the primary {self._name!r}: {'; '.join(complaints)}", "down")

    async def _asked(self, seed: Endpoint) -> Reply:
        link = await open_link(seed, PATIENCE_S, PATIENCE_S)
        try:
            return await link.ask(_question(self._name))
        finally:
            link.close()
            await asyncio.wait([link.lost], timeout=PATIENCE_S)


def _question(name: str) -> bytes:
    words: tuple[Any, ...] = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
    command: bytes = hiredis.pack_command(words)
    return command


def parse_primary(reply: Reply, name: str, seed: Endpoint) -> tuple[str, int]:
    """The host and port in the answer of a sentinel.

    Raises:
        StoreError: it does not know the name, or refused to say.
    """
    if isinstance(reply, hiredis.ReplyError):
        raise store_error(classify(str(reply)), f"the sentinel {seed.address}")
    match reply:
        case [bytes(host), bytes(port)] if port.isdigit():
            return host.decode(), int(port)
    raise StoreError(f"the sentinel {seed.address} knows no primary called {name!r}", "down")
