"""The audit log from a shell: who did what, and whether the log is as it was written."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from cyclopts import App

from limen.apps.cli import DONE, NO
from limen.apps.cli.history import when
from limen.apps.cli.options import DEFAULT_RULES_DB, AsJson, Whole
from limen.apps.cli.rules import with_repository

if TYPE_CHECKING:
    from limen.admin.audit_check import Checked

__all__ = ["audit"]

audit = App(name="audit", help="Who changed what, when and why.")

ROW = re.compile(r"(\d{1,18}):([0-9a-f]{64})")


@audit.command(name="list")
def list_entries(
    *, most: Whole = 50, before: Whole | None = None, rules_db: str = DEFAULT_RULES_DB, as_json: AsJson = False
) -> None:
    """List what was done, the newest first.

    Args:
        most: How many rows, 1000 at most.
        before: Only rows with a lower number.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.admin.history_bodies import entry_body

    wanted = min(max(1, most), 1000)
    found = with_repository(rules_db, lambda repository: repository.audit(before, wanted))
    shown = [entry_body(entry) for entry in found]
    if as_json:
        print(json.dumps({"entries": shown}))
        return
    for each in shown:
        print(_line(each))


@audit.command
def verify(*, noted: str | None = None, rules_db: str = DEFAULT_RULES_DB, as_json: AsJson = False) -> int:
    """Check that the log is as it was written, and that rules and history are what it says.

    Exit status 1: they are not.

    Args:
        noted: A row of the log as NUMBER:HASH, noted elsewhere when this was run before. It shows whether newer rows
            were cut off.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    row = None if noted is None else _row(noted)
    checked = with_repository(rules_db, lambda repository: repository.check_audit(row))
    print(json.dumps(checked._asdict()) if as_json else "\n".join(_said(checked)))
    return NO if checked.findings else DONE


def _row(text: str) -> tuple[int, str]:
    found = ROW.fullmatch(text)
    if found is None:
        from limen.errors import UsageError

        raise UsageError(f"{text!r} is not a row of the audit log; write NUMBER:HASH, as limen audit verify prints it")
    return int(found[1]), found[2]


def _said(checked: Checked) -> list[str]:
    lines = [f"WRONG  {finding}" for finding in checked.findings]
    if checked.rows:
        lines.append(
            f"{checked.rows} rows are as they were written; note the last elsewhere: {checked.rows}:{checked.head}"
        )
    return lines or ["the log is empty"]


def _line(entry: dict[str, Any]) -> str:
    detail = entry["detail"] if isinstance(entry["detail"], dict) else {}
    why = f": {detail['reason']}" if detail.get("reason") else ""
    return f"{entry['seq']}  {when(entry['at'])}  {entry['action']} {entry['subject']} by {entry['author']}{why}"
