"""The tokens of the rules database, in memory: who is let in does not wait for a database.

What is revoked elsewhere is known here within two looks. When no look went well for longer than that, nobody knows
whether a token is still good, and nobody is let in by one.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from limen.admin.callers import ROLES, Caller, NotBelieved
from limen.admin.polling import Poller
from limen.admin.tokens import StoredToken, digest_of, token_id
from limen.errors import LimenError, RulesUnavailable

__all__ = ["LOOK_S", "TokenBook"]

LOOK_S = 5.0
"""Seconds between two looks. Stale is what is older than three of them and 5 s more: 20 s."""
HOUR_S = 3600


class Tokens(Protocol):
    """Where tokens are kept, such as `limen.admin.token_table.TokenTable`."""

    def all(self) -> Awaitable[tuple[StoredToken, ...]]: ...
    def note_use(self, used: Mapping[str, int]) -> Awaitable[None]: ...


class TokenBook(Poller[tuple[StoredToken, ...]]):
    """
    Args:
        tokens: where they are kept.
        on_error: is told of every look that failed; must not raise.
        now: Unix time in seconds.
        interval_s: seconds between two looks, give or take a tenth.
    """

    def __init__(
        self,
        tokens: Tokens,
        on_error: Callable[[Exception], None],
        now: Callable[[], float] = time.time,
        interval_s: float = LOOK_S,
    ) -> None:
        super().__init__(interval_s, on_error, now)
        self._tokens = tokens
        self._by_id: dict[str, StoredToken] | None = None
        self._used: dict[str, int] = {}

    def find(self, text: str) -> Caller | None:
        """Who sends a token; None when it is none.

        Raises:
            NotBelieved: it is not good any more. Only who knows all of it is told so.
            RulesUnavailable: nobody knows.
        """
        identity = token_id(text)
        if identity is None:
            return None
        token = self._known().get(identity)
        if self.stale:
            raise RulesUnavailable("whether this token is still good is not known: the rules database does not answer")
        if token is None or not token.is_of(digest_of(text)):
            return None
        state = token.state(self._now())
        if state != "valid":
            raise NotBelieved(f"This token is {state}; 'limen tokens create' makes another.")
        self._note(token)
        return Caller(token.name, token.role) if token.role in ROLES else None

    def is_empty(self) -> bool:
        """Whether there never was a token. One that was revoked or has expired counts.

        Raises:
            RulesUnavailable: nobody knows.
        """
        return not self._known()

    async def look(self) -> tuple[StoredToken, ...]:
        return tuple(token._replace(last_used=None) for token in await self._tokens.all())

    async def load(self) -> tuple[StoredToken, ...]:
        found = await self.look()
        self._by_id = {token.id: token for token in found}
        return found

    async def once(self) -> None:
        await super().once()
        await self._tell_uses()

    def _known(self) -> dict[str, StoredToken]:
        if self._by_id is None:
            raise RulesUnavailable("who may come in is not known yet: the rules database does not answer")
        return self._by_id

    def _note(self, token: StoredToken) -> None:
        hour = int(self._now()) // HOUR_S * HOUR_S
        if (token.last_used or 0) < hour:
            self._used[token.id] = hour
            assert self._by_id is not None
            self._by_id[token.id] = token._replace(last_used=hour)

    async def _tell_uses(self) -> None:
        used, self._used = self._used, {}
        if used:
            try:
                await self._tokens.note_use(used)
            except LimenError:
                self._used = used | self._used
