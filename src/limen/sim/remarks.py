"""What a reader should know before believing a report: sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["remarks"]


def remarks(report: Mapping[str, Any]) -> Iterator[str]:
    """Sentences about candidates, and about what the log did not say, or said too late."""
    log = report["log"]
    for rule in report["rules"]:
        if "candidate" in rule:
            yield (
                f"the candidate {rule['candidate']} of rule {rule['rule']} would deny {rule['candidate_denied']:,} "
                f"that its limit allows, and allow {rule['candidate_allowed']:,} that it denies"
            )
    if log["unreadable"]:
        yield f"lines that hold no request that could be read, and were left out: {log['unreadable']:,}"
    for file in log["damaged"]:
        yield f"{file['file']} ends before its end: {file['why']}"
    if log["late"]:
        yield (
            f"lines that came too late to be put in order, by up to {log['most_late_s']:,.0f} s, and were decided when "
            f"they came: {log['late']:,}; sort the log by time, or give its parts as files of their own"
        )
    for field, rules in log["fields_missing"].items():
        yield f"no line has {_named(field)}, so {_listed(rules)} cannot apply as in a gateway"
    for field, rules in log["counted_by_address"].items():
        yield f"no line has {_named(field)}, so {_listed(rules)} counted by the address"
    if report["clients_are_at_least"]:
        yield "there were more clients than are remembered; those that came once were forgotten"


def _named(field: str) -> str:
    if field.startswith("header."):
        return f"the header {field[7:]}"
    return {"ip": "an address"}.get(field, f"a {field}")


def _listed(rules: list[str]) -> str:
    shown = ", ".join(rules[:5])
    more = f" and {len(rules) - 5} others" if len(rules) > 5 else ""
    return f"rule{'s' if len(rules) > 1 else ''} {shown}{more}"
