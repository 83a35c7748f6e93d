"""The fleet from a shell: who runs on these rules, and an outage to rehearse. Through the rules database, which every
process looks at every two seconds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from limen.apps.cli import DONE, NO
from limen.apps.cli.options import DEFAULT_RULES_DB, AsJson
from limen.apps.cli.rules import with_service

if TYPE_CHECKING:
    from limen.admin.records import Fleet

__all__ = ["drill", "fleet"]

drill = App(name="drill", help="Rehearse an outage, without touching anything.")


def fleet(*, rules_db: str = DEFAULT_RULES_DB, as_json: AsJson = False) -> None:
    """List the processes that decide: which rules they have, and when they were heard of.

    Args:
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.admin.bodies import fleet_body

    shown = fleet_body(with_service(rules_db, lambda service: service.fleet()))
    if as_json:
        print(json.dumps(shown))
        return
    print(f"{shown['alive']} alive, {shown['most']} at most within ten minutes; rules revision {shown['revision']}")
    for each in shown["gateways"]:
        print(_line(each))


@drill.command
def store_down(
    *,
    percent: float,
    lasts: Annotated[str, Parameter(name="--for")],
    reason: str = "",
    rules_db: str = DEFAULT_RULES_DB,
    as_json: AsJson = False,
) -> None:
    """Decide about some clients as if the store were away, on every gateway and for a time.

    Args:
        percent: Share of the clients, above 0 and up to 100; the same ones on every gateway.
        lasts: How long: 90s, 15m; an hour at most.
        reason: Written into the log of every gateway.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.admin.drills import drill_body

    order = {"what": "store-down", "percent": percent, "seconds": lasts, "reason": reason}
    started = with_service(rules_db, lambda service: service.start_drill(order))
    said = f"within 3 s {percent:g} % of the clients are decided without the store, for {lasts}"
    print(json.dumps(drill_body(started)) if as_json else f"{said}; limen drill stop ends it")


@drill.command
def show(*, rules_db: str = DEFAULT_RULES_DB, as_json: AsJson = False) -> int:
    """Show what is rehearsed now. Exit status 1: nothing.

    Args:
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.admin.drills import drill_body

    found = with_service(rules_db, lambda service: service.fleet())
    if as_json:
        print(json.dumps({"drill": found.drill and drill_body(found.drill, found.drill_s)}))
    else:
        print(_drilled(found))
    return DONE if found.drill else NO


@drill.command
def stop(*, rules_db: str = DEFAULT_RULES_DB, as_json: AsJson = False) -> int:
    """End what is rehearsed. Exit status 1: nothing was.

    Args:
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    ended = with_service(rules_db, lambda service: service.end_drill())
    said = "nothing was rehearsed" if ended is None else f"{ended.what} ends within 3 s"
    print(json.dumps({"ended": ended is not None}) if as_json else said)
    return NO if ended is None else DONE


def _drilled(found: Fleet) -> str:
    if found.drill is None:
        return "nothing is rehearsed"
    reason = f" ({found.drill.reason})" if found.drill.reason else ""
    return f"{found.drill.what}: {found.drill.percent:g} % of the clients, for another {found.drill_s} s{reason}"


def _line(gateway: dict[str, Any]) -> str:
    seen = "now" if gateway["alive"] else f"last seen {gateway['seen_s_ago']} s ago"
    rules = f"rules {gateway['revision']}{', behind' if gateway['behind'] else ''}"
    drilled = f", drill {gateway['drill_percent']:g} %" if gateway["drill_percent"] else ""
    place = f"{gateway['host']}:{gateway['pid']}"
    return f"{place}  {gateway['kind']}  {gateway['state']}  {rules}  store {gateway['store']}{drilled}  {seen}"
