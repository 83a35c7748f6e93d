"""Who an API key is: all clients, in memory, as they were at one moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from limen.admin.api_keys import api_key_digest

__all__ = ["ClientRecord", "Directory"]


class ClientRecord(NamedTuple):
    """A verified identity."""

    client: str
    plan: str | None = None
    user: str | None = None


class Client(Protocol):
    """What a directory is made of, such as `limen.admin.records.StoredClient`."""

    @property
    def client(self) -> str: ...
    @property
    def plan(self) -> str | None: ...
    @property
    def digests(self) -> tuple[str, ...]: ...


class Directory:
    """An immutable list of clients. It holds keyed hashes, never a key.

    Args:
        clients: whoever is known.
        secret: what the hashes of their API keys are keyed with.
    """

    __slots__ = ("_by_digest", "_clients", "_secret")

    def __init__(self, clients: Iterable[Client] = (), secret: bytes = b"") -> None:
        self._secret = secret
        self._by_digest: dict[str, ClientRecord] = {}
        self._clients = 0
        for client in clients:
            record = ClientRecord(client.client, client.plan)
            self._clients += 1
            self._by_digest.update(dict.fromkeys(client.digests, record))

    def __len__(self) -> int:
        return self._clients

    def find(self, api_key: str) -> ClientRecord | None:
        """Whose key this is; None when it is nobody's."""
        return self._by_digest.get(api_key_digest(api_key, self._secret))
