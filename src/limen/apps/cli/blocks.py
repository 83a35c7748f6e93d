"""Who is refused, or not limited at all, from a shell. Every process follows within seconds."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from cyclopts import Parameter

from limen.apps.cli import DONE, NO
from limen.apps.cli.options import DEFAULT_RULES_DB, AsJson, until_text
from limen.apps.cli.standing import For, with_standing

__all__ = ["allow", "block", "unblock"]

Who = Literal["client", "user", "ip"]
As = Annotated[Who | None, Parameter(name="--as")]


def block(
    who: str,
    /,
    *,
    lasts: For = None,
    kind: As = None,
    reason: str = "",
    confirm: bool = False,
    rules_db: str = DEFAULT_RULES_DB,
    as_json: AsJson = False,
) -> None:
    """Refuse a client, or everybody in a network, whatever the rules say.

    Args:
        who: Name of the client, an address, or a network such as 192.0.2.0/24.
        lasts: How long: 90s, 15m, 1h, 1d; without it until it is taken back.
        kind: What WHO is: client, user or ip; without it an address is an ip, all else a client.
        reason: For operators; no client sees it.
        confirm: Do it although the network is very wide; takes a reason.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    _say("block", who, kind, lasts, reason, confirm, rules_db, as_json)


def allow(
    who: str,
    /,
    *,
    lasts: For = None,
    kind: As = None,
    reason: str = "",
    confirm: bool = False,
    rules_db: str = DEFAULT_RULES_DB,
    as_json: AsJson = False,
) -> None:
    """Let a client, or everybody in a network, pass without any limit.

    Args:
        who: Name of the client, an address, or a network such as 192.0.2.0/24.
        lasts: How long: 90s, 15m, 1h, 1d; without it until it is taken back.
        kind: What WHO is: client, user or ip; without it an address is an ip, all else a client.
        reason: For operators; no client sees it.
        confirm: Do it although the network is very wide; takes a reason.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    _say("allow", who, kind, lasts, reason, confirm, rules_db, as_json)


def unblock(who: str, /, *, reason: str = "", rules_db: str = DEFAULT_RULES_DB, as_json: AsJson = False) -> int:
    """Take back what block or allow said. Exit status 1: nothing was said.

    Args:
        who: Name of the client or user, an address, or a network, as it was given.
        reason: Why, for the audit log.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.admin.records import Signature
    from limen.admin.standing_bodies import block_body

    by = Signature(reason=reason)
    taken = with_standing(rules_db, lambda service: service.take_blocks_of(who, by))
    said = "\n".join(f"{each.by} {each.name}: {each.kind} taken back" for each in taken)
    print(json.dumps({"taken": list(map(block_body, taken))}) if as_json else said or f"nothing was said of {who}")
    return DONE if taken else NO


def _say(
    what: str, who: str, kind: Who | None, lasts: str | None, reason: str, confirm: bool, rules_db: str, as_json: bool
) -> None:
    from limen.admin.records import Signature
    from limen.admin.standing_bodies import block_body

    given = {"kind": what, "for": lasts, "reason": reason}
    document = {kind or _kind_of(who): who, **{name: value for name, value in given.items() if value}}
    by = Signature(reason=reason, confirmed=confirm)
    found = with_standing(rules_db, lambda service: service.put_block(document, by)).block
    said = {"block": "is blocked", "allow": "is not limited"}[what]
    print(json.dumps(block_body(found)) if as_json else f"{found.by} {found.name} {said}{until_text(found.until)}")


def _kind_of(who: str) -> Who:
    from limen.errors import UsageError
    from limen.rules.networks import Networks

    try:
        Networks.parse(who)
    except UsageError:
        return "client"
    return "ip"
