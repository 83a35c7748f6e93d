"""The way into the admin API of a process, put together: what is set, the tokens in the rules database, the limit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Self

from limen.admin.access import Access
from limen.admin.token_book import LOOK_S, TokenBook
from limen.admin.token_service import TokenService
from limen.apps.admission import Admission
from limen.apps.backend import Backend
from limen.apps.repositories import repository_for
from limen.apps.seldom import Seldom
from limen.apps.settings import Listen, Shared
from limen.apps.strikes import Strikes
from limen.errors import LimenError, RulesUnavailable, SettingsError

__all__ = ["WayIn", "require_way_in"]

log = logging.getLogger("limen")

FIRST_LOOK_S = 2.0
"""How long a start waits for the tokens. Without them it answers 503 until they are there."""


class WayIn:
    """Who is let in, and how that changes. Use it as `async with WayIn(…) as way_in:`.

    Attributes:
        access: who is let in.
        tokens: makes and revokes tokens.
    """

    def __init__(self, backend: Backend, listen: Listen, admission: Admission) -> None:
        self._words = Seldom(log)
        every_s = min(LOOK_S, backend.settings.poll_s)
        self._book = TokenBook(backend.repository.tokens, self._complain, interval_s=every_s)
        self.access = Access(
            admission.token,
            book=self._book,
            front=admission.front,
            strike=Strikes(),
            local=not admission.is_guarded(listen),
        )
        self.tokens = TokenService(backend.repository, changed=self._book.once)

    async def __aenter__(self) -> Self:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LOOK_S):
                await self._book.once()
        self._book.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._book.stop()

    def _complain(self, error: Exception) -> None:
        trace = None if isinstance(error, LimenError) else error
        self._words.warning("tokens", f"the tokens of the admin API cannot be read: {error}", trace)


async def require_way_in(settings: Shared, listen: Listen, admission: Admission) -> None:
    """Refuse to show the admin API to the world when nobody could come in, or everybody.

    With its database away it starts all the same: nobody comes in by a token until it answers.

    Raises:
        SettingsError: the address is not of this machine alone, and there is neither a token nor a front proxy.
    """
    if listen.is_local or admission.token is not None or admission.front is not None:
        return
    with contextlib.suppress(RulesUnavailable):
        async with repository_for(settings) as repository:
            tokens = await repository.tokens.all()
        if not any(token.state(time.time()) == "valid" for token in tokens):
            raise SettingsError(
                f"{listen.host} can be reached from elsewhere; set LIMEN_ADMIN_TOKEN, make a token with "
                "'limen tokens create NAME --role approver', or listen on 127.0.0.1"
            )
