"""Who sends a request: a verified client by its API key, and the address that it came from.

A key that nobody knows makes no client: such requests are counted by their address, so made-up keys never get a
bucket each. Header names are compared as they are; `X_API_KEY` is not `X-API-Key`.
"""

from __future__ import annotations

import inspect
import logging
import time
import traceback
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, NamedTuple, Protocol

from limen.errors import UsageError
from limen.rules.client_ip import client_address, networks

__all__ = [
    "NOBODY",
    "ApiKeyIdentity",
    "ApiKeys",
    "BadIdentity",
    "Identify",
    "Identity",
    "PeerAddress",
    "guarded",
    "header_values",
    "nobody",
    "peer_of",
]

Scope = MutableMapping[str, Any]

SLOW_S = 0.1
"""An `identify` that takes longer is told of: it holds up all others."""

log = logging.getLogger(__name__)


class Identity(NamedTuple):
    """A verified identity; None for what is not known."""

    client: str | None = None
    plan: str | None = None
    user: str | None = None


NOBODY = Identity()


class BadIdentity(NamedTuple):
    """The request contradicts itself about who sends it: it is answered with 400 and `detail`."""

    detail: str


Identify = Callable[[Scope], Identity | BadIdentity | None]


class ApiKeys(Protocol):
    """A directory of API keys, such as a snapshot of the rules database in memory."""

    def find(self, api_key: str, /) -> tuple[str | None, str | None, str | None] | None:
        """Client, plan and user of a key; None when the key is not known. Must not block."""


class ApiKeyIdentity:
    """The identity behind the API key of a request: `X-API-Key: KEY`, else `Authorization: Bearer KEY`.

    Args:
        keys: the directory.
        header: the name of the field that holds the key.
    """

    def __init__(self, keys: ApiKeys, header: str = "X-API-Key") -> None:
        self.keys = keys
        self._header = header.lower().encode("latin-1")

    def __call__(self, scope: Scope) -> Identity | BadIdentity:
        found = self._api_key(scope)
        if not found:
            return NOBODY
        if isinstance(found, BadIdentity):
            return found
        identity = _identity(self.keys.find(found))
        if identity is None:
            raise TypeError("a directory of API keys answers with client, plan and user, or None")
        return identity

    def _api_key(self, scope: Scope) -> str | BadIdentity:
        written = header_values(scope, self._header)
        if len(written) > 1:
            return BadIdentity(f"{self._header.decode('latin-1')} is there {len(written)} times; send it once.")
        if written:
            return written[0].strip()
        return self._bearer(scope)

    @staticmethod
    def _bearer(scope: Scope) -> str | BadIdentity:
        written = header_values(scope, b"authorization")
        if len(written) > 1:
            return BadIdentity(f"authorization is there {len(written)} times; send it once.")
        scheme, _, token = written[0].partition(" ") if written else ("", "", "")
        return token.strip() if scheme.lower() == "bearer" else ""


class PeerAddress:
    """The address that a request came from.

    Args:
        trusted_proxies: networks of our own proxies (`10.0.0.0/8`). Only what they add to X-Forwarded-For is
            believed; without any, the client is whoever is on the socket. No other header is read. A server in
            front of this that reads X-Forwarded-For by itself (uvicorn does for 127.0.0.1) must be told not to.
        trust_unix: whoever speaks over a Unix socket is one of our proxies.

    Raises:
        UsageError: a network that is none.
    """

    def __init__(self, trusted_proxies: Iterable[str] = (), trust_unix: bool = False) -> None:
        if isinstance(trusted_proxies, str):
            raise UsageError(f"trusted_proxies is a list of networks such as ['10.0.0.0/8'], not {trusted_proxies!r}")
        self.trusted = networks(trusted_proxies)
        self.trust_unix = trust_unix
        self._warned = False

    def __call__(self, scope: Scope) -> str | None:
        peer = peer_of(scope)
        if not self.trusted and not self.trust_unix and peer:
            return peer
        lines = header_values(scope, b"x-forwarded-for")
        address = client_address(peer, lines, self.trusted, self.trust_unix)
        if address is None and not self._warned:
            self._warned = True
            log.warning(
                "requests come without an address and share one bucket; if they come from a proxy of yours over a "
                "Unix socket, set trust_unix"
            )
        return address


def peer_of(scope: Scope) -> str | None:
    """The address on the socket, without its port; None for a Unix socket."""
    client = scope.get("client")
    peer = client[0] if client else None
    return None if not peer or peer.startswith("unix:") else peer


def header_values(scope: Scope, name: bytes) -> list[str]:
    """The values of every line of one header, in order.

    Args:
        name: in lower case, as ASGI has them.
    """
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def nobody(scope: Scope) -> Identity:
    """No verified identity, whatever the request: the client is its address."""
    return NOBODY


def guarded(identify: Identify) -> Callable[[Scope], Identity | BadIdentity]:
    """`identify`, made safe: an error in it is logged, once a minute for each kind, and means nobody.

    So is an answer that is no identity; one that was long in coming is logged too.
    """
    complaints, now = _Complaints(), time.monotonic

    def identify_safely(scope: Scope) -> Identity | BadIdentity:
        asked = now()
        try:
            answer = identify(scope)
        except Exception as error:  # noqa: BLE001 -- user code failed; the limiter must not be the outage
            complaints.report(error)
            return NOBODY
        if now() - asked > SLOW_S:
            complaints.report_slow(now() - asked)
        found = _identity(answer)
        if found is None:
            complaints.report_answer(answer)
        return found or NOBODY

    return identify_safely


def _identity(found: object) -> Identity | BadIdentity | None:
    """What `identify` has answered, as an identity; None when it is none.

    A text would be taken apart into letters, and a name that is no text would count apart from the same as text.
    """
    if found is None:
        return NOBODY
    if isinstance(found, BadIdentity):
        return found
    if inspect.iscoroutine(found):
        found.close()
    if not isinstance(found, tuple | list) or len(found) > 3:
        return None
    return Identity(*found) if all(part is None or isinstance(part, str) for part in found) else None


class _Complaints:
    """Log lines about errors in `identify`. They never show its message, which may hold a key."""

    EVERY_S = 60.0

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def report(self, error: Exception) -> None:
        kind = type(error).__qualname__
        if self._is_due(kind):
            place = traceback.extract_tb(error.__traceback__)[-1]
            log.error(
                "identify raised %s at %s:%s; requests are counted by address", kind, place.filename, place.lineno
            )

    def report_answer(self, answer: object) -> None:
        kind = type(answer).__qualname__
        if self._is_due(f"answer {kind}"):
            log.error("identify answered with a %s and no Identity of texts; requests are counted by address", kind)

    def report_slow(self, seconds: float) -> None:
        if self._is_due("slow"):
            log.error("identify took %.1f s, and every other request waited; it should read what is there", seconds)

    def _is_due(self, kind: str) -> bool:
        now = time.monotonic()
        if now - self._last.get(kind, -self.EVERY_S) < self.EVERY_S:
            return False
        self._last[kind] = now
        return True
