"""Who an API key is: all clients, in memory, as they were at one moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from limen.admin.api_keys import Secrets

__all__ = ["ClientRecord", "Directory"]


NO_SECRETS = Secrets(b"")


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
        secrets: what the hashes of their API keys are keyed with.
    """

    __slots__ = ("_by_digest", "_clients", "_secrets")

    def __init__(self, clients: Iterable[Client] = (), secrets: Secrets = NO_SECRETS) -> None:
        self._secrets = secrets
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
        for digest in self._secrets.digests(api_key):
            found = self._by_digest.get(digest)
            if found is not None:
                return found
        return None
