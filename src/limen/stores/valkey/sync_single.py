"""One server, wherever it is: at its address, or where sentinels say that the primary is."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from limen.errors import StoreError
from limen.stores.valkey.endpoint import Endpoint, Target
from limen.stores.valkey.replies import Refusal
from limen.stores.valkey.sync_attempts import Attempts
from limen.stores.valkey.sync_channel import Channel
from limen.stores.valkey.sync_connect import ask_once
from limen.stores.valkey.sync_node import SyncNode

__all__ = ["FollowingNode", "SingleNode", "find_primary"]

log = logging.getLogger("limen.store")

LOOK_AGAIN_S = 2.0


class SingleNode:
    """The only node, which decides about every key."""

    def __init__(self, node: SyncNode) -> None:
        self.node = node

    @property
    def state(self) -> str:
        return self.node.state

    @property
    def shards(self) -> Mapping[str, str]:
        return self.node.shards

    def start(self) -> None:
        self.node.start()

    def close(self) -> None:
        self.node.close()

    def node_of(self, key: bytes) -> SyncNode:
        return self.node

    def elsewhere(self, refusal: Refusal, asked: SyncNode) -> SyncNode | None:
        return None

    def look_again(self) -> None:
        """There is nothing to look at."""


class FollowingNode(SyncNode):
    """A primary that others may replace while it still answers: with calls under way, sentinels are asked now and then.

    After a planned failover the old primary takes writes for some ten seconds more, and what is counted there is lost.
    """

    def _begin(self) -> None:
        super()._begin()
        self._look_at = 0.0
        self._looking = Attempts(f"limen asks who is {self.where}", self._look, _not_told, lambda: None, LOOK_AGAIN_S)

    def borrow(self, until: float = 0.0) -> tuple[Channel, float]:
        now = monotonic()
        if now > self._look_at and len(self.pool):
            self._look_at = now + LOOK_AGAIN_S
            self._looking.run()
        return super().borrow(until)

    def _look(self) -> None:
        found, had = self._locate(), self.endpoint
        if had is not None and found.address != had.address:
            self.leave(f"{had} is not the primary any more: {found.address} is")


def _not_told(error: StoreError, failures: int) -> None:
    log.log(logging.DEBUG if failures else logging.WARNING, "%s", error)


def find_primary(target: Target) -> Callable[[], Endpoint]:
    """A function that asks the sentinels where the primary is, one after the other."""
    command = _primary_command(target.name)

    def find() -> Endpoint:
        errors = []
        for sentinel in random.sample(target.seeds, len(target.seeds)):
            try:
                return target.login.at(*_address(ask_once(sentinel, command), sentinel, target.name))
            except StoreError as error:
                errors.append(str(error))
        raise StoreError("; ".join(errors), "down")

    return find


def _primary_command(name: str) -> bytes:
    words = (b"SENTINEL", b"get-master-addr-by-name", name.encode())
    return b"*3\r\n" + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def _address(reply: object, sentinel: Endpoint, name: str) -> tuple[str, int]:
    if not isinstance(reply, Sequence) or len(reply) != 2:
        raise StoreError(f"the sentinel at {sentinel.address} knows no primary {name!r}: {reply!r:.100}", "down")
    return reply[0].decode(), int(reply[1])
