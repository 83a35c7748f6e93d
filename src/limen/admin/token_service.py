"""Making and revoking tokens of the admin API. Knows nothing of HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from limen.admin.records import UNSIGNED, Signature
from limen.admin.repository import Repository
from limen.admin.service import nobody
from limen.admin.token_table import insert_token, read_token, read_tokens, revoke_token
from limen.admin.tokens import StoredToken, is_id, make_token, token_id, token_order_from
from limen.errors import Conflict

__all__ = ["MadeToken", "TokenService"]

MOST_VALID = 1000
"""More tokens than that are a mistake: each look reads them all."""


class MadeToken(NamedTuple):
    text: str
    """The token itself. Nobody can show it again."""
    token: StoredToken


class TokenService:
    """
    Args:
        repository: the rules database.
        changed: is awaited after each change, so that it is in force here when the change is answered.

    Every method raises `RulesUnavailable` while the database does not answer.
    """

    def __init__(self, repository: Repository, *, changed: Callable[[], Awaitable[None]] = nobody) -> None:
        self._repository = repository
        self._changed = changed

    async def all(self) -> tuple[StoredToken, ...]:
        """Every token there ever was, the oldest first."""
        return await self._repository.tokens.all()

    async def create(self, document: object, by: Signature = UNSIGNED) -> MadeToken:
        """Make a token.

        Args:
            document: `{name, role, for}`.

        Raises:
            RuleError: a field is wrong.
            Conflict: there are too many.
        """
        order, new = token_order_from(document), make_token()
        async with self._repository.change(by=by, counter=None) as change:
            now = change.now
            valid = [token for token in await read_tokens(change.connection) if token.state(now) == "valid"]
            if len(valid) >= MOST_VALID:
                raise Conflict(f"there are {len(valid)} valid tokens; revoke those that nobody uses", None)
            expires = now + int(order.seconds)
            token = StoredToken(new.id, order.name, order.role, new.digest, now, by.author, expires, None, None)
            await insert_token(change.connection, token)
            detail = {"name": token.name, "role": token.role, "expires": expires}
            change.record("token.create", f"token:{token.id}", detail)
        await self._changed()
        return MadeToken(new.text, token)

    async def revoke(self, text: str, by: Signature = UNSIGNED) -> StoredToken | None:
        """End a token before its time; None when there is none. One that was revoked before stays as it is.

        Args:
            text: its id, or the token itself, which somebody may have found.
        """
        identity = token_id(text) or text
        if not is_id(identity):
            return None
        async with self._repository.change(by=by, counter=None) as change:
            token = await read_token(change.connection, identity)
            if token is not None and token.revoked is None:
                token = token._replace(revoked=change.now)
                await revoke_token(change.connection, identity, change.now)
                change.record("token.revoke", f"token:{identity}", {"name": token.name, "role": token.role})
        await self._changed()
        return token
