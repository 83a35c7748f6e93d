"""Who is let into the admin API: before anything else is looked at, and before a body is read.

A token in the request decides when it is right. Else a front proxy may have said who it is. Else a service that only
this machine can reach, and that has no tokens, lets everybody in who does not look like a page of somebody else. What
is wrong is 401, whatever the address: a stranger does not learn which there are.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple, Protocol

from limen.admin.callers import APPROVER, BOOTSTRAP, LOCAL, READING, Caller, NotBelieved
from limen.admin.crossing import is_foreign, is_forwarded, is_own, is_this_machine
from limen.admin.front_proxy import FrontProxy
from limen.admin.problems import Reply, error_reply, problem_reply
from limen.admin.tokens import has_prefix
from limen.errors import RulesUnavailable

__all__ = ["Access", "Asked", "Book", "Strike"]

NEEDED = "This needs a token of the admin API: send 'Authorization: Bearer TOKEN'."
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="limen admin"'}

Strike = Callable[[str], float | None]
"""Is told the address that sent a wrong token; seconds until it may send another, None when it may at once."""


class Asked(NamedTuple):
    """What is looked at of a request."""

    method: str
    peer: str | None
    """The address on the socket; None for a Unix socket."""
    lines: Callable[[str], list[str]]
    """The values of a header field, one for each line that has it."""


class Book(Protocol):
    """The tokens in the rules database, as they are known here. Both raise `RulesUnavailable` while nobody knows.

    `find` raises `NotBelieved` for one that was good once.
    """

    def find(self, text: str) -> Caller | None: ...
    def is_empty(self) -> bool: ...


class Access:
    """
    Args:
        token: the one of the settings, whose bearer may do everything; None: there is none.
        book: the tokens in the database; None: there are none.
        front: a front proxy that says who somebody is; None believes nobody.
        strike: limits how often an address may send what is wrong; None does not.
        local: whether only this machine can reach the service. Then, and without any tokens, no token is needed.
        everybody: whether nothing is needed at all: the app is guarded by what stands around it.
    """

    def __init__(
        self,
        token: str | None = None,
        *,
        book: Book | None = None,
        front: FrontProxy | None = None,
        strike: Strike | None = None,
        local: bool = False,
        everybody: bool = False,
    ) -> None:
        self._digest = None if token is None else sha256(token.encode()).digest()
        self._book = book
        self._front = front
        self._strike = strike
        self._local = local and token is None and front is None
        self._everybody = everybody and token is None

    @property
    def needs_token(self) -> bool:
        """Whether somebody on this machine needs one; True as well while nobody knows."""
        try:
            return not self._everybody and not self._is_open()
        except RulesUnavailable:
            return True

    def admit(self, asked: Asked) -> Caller | Reply:
        """Who it is, or what to answer instead."""
        try:
            who = self._known(asked)
        except NotBelieved as refusal:
            return problem_reply(400, str(refusal)) if refusal.status == 400 else self._refused(asked, str(refusal))
        except RulesUnavailable as error:
            return error_reply(error)
        if who is None:
            return self._refused(asked, NEEDED)
        return self._crossed(asked, who) or who

    def _known(self, asked: Asked) -> Caller | None:
        if self._everybody:
            return LOCAL
        given = _bearer(asked.lines("authorization"))
        found = self._by_token(given) if given else None
        if found or has_prefix(given):
            return found
        return self._by_place(asked)

    def _by_token(self, given: str) -> Caller | None:
        # Hashes of equal length are compared, in constant time.
        if self._digest and hmac.compare_digest(sha256(_bytes(given)).digest(), self._digest):
            return Caller(BOOTSTRAP, APPROVER)
        return self._book.find(given) if self._book else None

    def _by_place(self, asked: Asked) -> Caller | None:
        if self._front is not None:
            return self._front.identify(asked.peer, asked.lines)
        return LOCAL if self._is_open() else None

    def _is_open(self) -> bool:
        return self._local and (self._book is None or self._book.is_empty())

    def _crossed(self, asked: Asked, who: Caller) -> Reply | None:
        """What to answer to a request that somebody else's page may have sent in the name of a caller."""
        if not who.ambient or self._everybody:
            return None
        return self._from_elsewhere(asked) or self._from_a_page(asked)

    def _from_elsewhere(self, asked: Asked) -> Reply | None:
        if self._front is not None:
            return None
        if not is_this_machine(asked.lines("host")):
            return problem_reply(421, "Without a token this answers to the Host localhost or 127.0.0.1 only.")
        if is_forwarded(asked.lines):
            return problem_reply(401, "A proxy handed this on, so it needs a token of the admin API.", CHALLENGE)
        return None

    def _from_a_page(self, asked: Asked) -> Reply | None:
        if asked.method in READING:
            return None
        if is_foreign(asked.lines):
            return problem_reply(403, "The page of another site sent this. Nothing was changed.")
        if self._front is not None and not is_own(asked.lines):
            return problem_reply(403, "A change that comes by the front proxy needs the field 'X-Limen-Request: 1'.")
        return None

    def _refused(self, asked: Asked, why: str) -> Reply:
        tried = asked.lines("authorization") or (self._front and asked.lines(self._front.header))
        wait = self._strike(asked.peer or "") if tried and self._strike else None
        if wait is None:
            return problem_reply(401, why, CHALLENGE)
        return problem_reply(
            429, "Too many wrong tokens came from this address.", {"Retry-After": str(max(1, math.ceil(wait)))}
        )


def _bearer(fields: list[str]) -> str:
    """The token in the Authorization field (RFC 6750); empty when there is none, or another scheme, or two fields."""
    if len(fields) != 1:
        return ""
    scheme, _, token = fields[0].partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _bytes(field: str) -> bytes:
    """A header field as the bytes that were sent."""
    return field.encode("latin-1", "surrogatepass")
