"""Tokens of the admin API from a shell, through the rules database. Services learn of it in seconds."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import App, Parameter

from limen.apps.cli import DONE, NO
from limen.apps.cli.options import DEFAULT_RULES_DB, AsJson

if TYPE_CHECKING:
    from limen.admin.token_service import TokenService

__all__ = ["tokens"]

T = TypeVar("T")

tokens = App(name="tokens", help="Make, list and revoke tokens of the admin API.")


@tokens.command
def create(
    name: str,
    /,
    *,
    role: str,
    lasts: Annotated[str, Parameter(name="--for")] = "90d",
    reason: str = "",
    rules_db: str = DEFAULT_RULES_DB,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it. Nothing shows it again.

    Args:
        name: Who uses it: a person or a program. The author of what is done with it.
        role: viewer reads, editor changes too, approver also approves and makes tokens.
        lasts: Until when it is good: 12h, 90d; 366 days at most.
        reason: Why; for the audit log.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.admin.records import Signature
    from limen.admin.tokens import token_body

    order = {"name": name, "role": role, "for": lasts}
    made = _with_tokens(rules_db, lambda service: service.create(order, Signature(reason=reason)))
    if as_json:
        print(json.dumps({"token": made.text, **token_body(made.token, time.time())}))
    else:
        print(made.text)


@tokens.command(name="list")
def list_tokens(*, rules_db: str = DEFAULT_RULES_DB, as_json: AsJson = False) -> None:
    """List every token there ever was, but not the tokens themselves.

    Args:
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.admin.tokens import token_body

    now = time.time()
    found = [token_body(token, now) for token in _with_tokens(rules_db, lambda service: service.all())]
    if as_json:
        print(json.dumps({"tokens": found}))
        return
    for each in found:
        print(_line(each))
    if not found:
        print("there are no tokens")


@tokens.command
def revoke(token: str, /, *, reason: str = "", rules_db: str = DEFAULT_RULES_DB, as_json: AsJson = False) -> int:
    """End a token before its time: within 30 s nobody comes in by it. Exit status 1: there is none.

    Args:
        token: Its id, the eight characters after lmn_; or all of it.
        reason: Why; for the audit log.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.admin.records import Signature

    ended = _with_tokens(rules_db, lambda service: service.revoke(token, Signature(reason=reason)))
    said = "there is no such token" if ended is None else f"the token {ended.id} of {ended.name} is revoked"
    print(json.dumps({"revoked": ended is not None}) if as_json else said)
    return NO if ended is None else DONE


def _with_tokens(rules_db: str, ask: Callable[[TokenService], Awaitable[T]]) -> T:
    """What the rules database answers.

    Raises:
        RulesUnavailable: it does not.
    """
    import asyncio

    from limen.admin.repository import Repository
    from limen.admin.token_service import TokenService

    async def answer() -> T:
        async with Repository(rules_db) as repository:
            return await ask(TokenService(repository))

    return asyncio.run(answer())


def _line(token: dict[str, Any]) -> str:
    used = "never used" if token["last_used"] is None else f"used {_day(token['last_used'])}"
    what = f"{token['id']}  {token['name']}  {token['role']}  {token['state']}"
    return f"{what}  until {_day(token['expires'])}  {used}  by {token['created_by']}"


def _day(at: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at))
