"""Single clients from a shell: flags, limits of their own, and what is said of all. Processes follow within seconds."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import Parameter

from limen.apps.cli import DONE, NO
from limen.apps.cli.options import DEFAULT_RULES_DB, AsJson, Whole, until_text

if TYPE_CHECKING:
    from limen.admin.standing_service import By, StandingService

__all__ = ["For", "flag", "override", "standing", "with_standing"]

T = TypeVar("T")
For = Annotated[str | None, Parameter(name="--for")]
PAGE = 1000


def flag(
    client: str,
    what: Literal["over_quota"] = "over_quota",
    /,
    *,
    off: Annotated[bool, Parameter(negative="")] = False,
    lasts: For = None,
    retry_after: Whole | None = None,
    reason: str = "",
    rules_db: str = DEFAULT_RULES_DB,
    as_json: AsJson = False,
) -> None:
    """Say that the quota of a client is used up elsewhere: it is refused until then.

    Args:
        client: Name of the client.
        what: over_quota.
        off: Take the flag away.
        lasts: How long: 90s, 15m, 1h, 1d; without it until it is taken away.
        retry_after: Seconds that the client is told to wait; without it until the end of the flag.
        reason: Why, for the audit log.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.admin.records import Signature
    from limen.admin.standing_bodies import flag_body

    given = {"for": lasts, "retry_after": retry_after, "reason": reason}
    document = {"over_quota": not off, **{name: value for name, value in given.items() if value}}
    by = Signature(reason=reason)
    found = with_standing(rules_db, lambda service: service.put_flag(client, document, by))
    if as_json:
        print(json.dumps(flag_body(found) if found else {"client": client, "over_quota": False}))
    else:
        print(f"{client} is over its quota{until_text(found.until)}" if found else f"{client} has no flag")


def override(
    rule: str,
    limit: str | None = None,
    /,
    *,
    client: str | None = None,
    plan: str | None = None,
    off: Annotated[bool, Parameter(negative="")] = False,
    lasts: For = None,
    reason: str = "",
    confirm: bool = False,
    rules_db: str = DEFAULT_RULES_DB,
    as_json: AsJson = False,
) -> int:
    """Give one client, or everybody on a plan, another limit under a rule.

    Exit status 1: there was none to take away.

    Args:
        rule: Id of the rule.
        limit: As in a rule, and of the same kind: 500/minute, unlimited, 0/minute.
        client: Name of the client.
        plan: Name of the plan.
        off: Let the rule's own limit hold again.
        lasts: How long: 90s, 15m, 1h, 7d; without it until it is taken away.
        reason: Why, for the audit log.
        confirm: Do it although it cuts the limit of a whole plan; takes a reason.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.admin.records import Signature

    by_what, name = _subject(client, plan)
    by = Signature(reason=reason, confirmed=confirm)
    if off:
        return _take_override(rule, by_what, name, by, rules_db, as_json)
    given = {"limit": limit, "for": lasts, "reason": reason}
    document = {field: value for field, value in given.items() if value}
    put = with_standing(rules_db, lambda service: service.put_override(rule, by_what, name, document, by))
    if put is None:
        raise _usage(f"there is no rule {rule!r}; limen rules list shows what there is")
    from limen.admin.standing_bodies import override_body

    said = f"{by_what} {name} has {put.override.limit} under {rule}{until_text(put.override.until)}"
    print(json.dumps(override_body(put.override)) if as_json else said)
    return DONE


def standing(*, rules_db: str = DEFAULT_RULES_DB, as_json: AsJson = False) -> None:
    """List who is blocked, allowed or over its quota, and who has a limit of its own.

    Args:
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.admin.standing_bodies import block_body, flag_body, override_body

    blocks, flags, overrides = with_standing(rules_db, _everything)
    if as_json:
        found = {"blocks": list(map(block_body, blocks)), "flags": list(map(flag_body, flags))}
        print(json.dumps({**found, "overrides": list(map(override_body, overrides))}))
        return
    for each in blocks:
        print(f"{each.kind}  {each.by} {each.name}{until_text(each.until)}{_because(each.reason)}")
    for each in flags:
        print(f"over quota  client {each.client}{until_text(each.until)}{_because(each.reason)}")
    for each in overrides:
        print(f"{each.limit}  {each.by} {each.name} under {each.rule}{until_text(each.until)}{_because(each.reason)}")
    if not (blocks or flags or overrides):
        print("nothing is said of anybody")


def _take_override(rule: str, by_what: By, name: str, by: Any, rules_db: str, as_json: bool) -> int:
    taken = with_standing(rules_db, lambda service: service.take_override(rule, by_what, name, by))
    said = f"{by_what} {name} has the limit of {rule} again" if taken else f"{by_what} {name} had none under {rule}"
    print(json.dumps({"rule": rule, by_what: name, "taken": taken}) if as_json else said)
    return DONE if taken else NO


async def _everything(service: StandingService) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    """All of it, a page at a time."""
    blocks = await _pages(lambda last, _: service.blocks(last.id if last else 0, PAGE))
    flags = await _pages(lambda last, _: service.flags(last.client if last else "", PAGE))
    overrides = await _pages(lambda _, seen: service.overrides(seen, PAGE))
    return blocks, flags, overrides


async def _pages(ask: Callable[[Any, int], Awaitable[Sequence[Any]]]) -> Sequence[Any]:
    found: list[Any] = []
    while more := await ask(found[-1] if found else None, len(found)):
        found += more
        if len(more) < PAGE:
            break
    return found


def with_standing(rules_db: str, ask: Callable[[StandingService], Awaitable[T]]) -> T:
    """What the rules database answers.

    Raises:
        RulesUnavailable: it does not.
    """
    import asyncio

    from limen.admin.repository import Repository
    from limen.admin.service import nobody
    from limen.admin.standing_service import StandingService

    async def answer() -> T:
        async with Repository(rules_db) as repository:
            return await ask(StandingService(repository, nobody))

    return asyncio.run(answer())


def _subject(client: str | None, plan: str | None) -> tuple[By, str]:
    if (client is None) == (plan is None):
        raise _usage("name one of --client and --plan")
    return ("client", client) if client is not None else ("plan", plan or "")


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _usage(sentence: str) -> Exception:
    from limen.errors import UsageError

    return UsageError(sentence)
