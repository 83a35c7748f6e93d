"""A replay as one document: what JSON prints, and what text and HTML are made of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from limen.rules.effect import effect_to_document
from limen.rules.model import Rule
from limen.sim.replay import Reading, Replay
from limen.sim.tally import RuleCount, Tally

__all__ = ["MOST_LISTED", "limit_text", "report_of", "when"]

MOST_LISTED = 20
US = 1_000_000


def report_of(found: Replay, most: int = MOST_LISTED) -> dict[str, Any]:
    """Everything that is to be told.

    Args:
        found: the replay.
        most: how many clients and paths are listed.
    """
    tally = found.tally
    return {
        "requests": tally.requests,
        "denied": tally.denied,
        "denied_ratio": _ratio(tally.denied, tally.requests),
        "clients": len(tally.clients),
        "clients_are_at_least": tally.forgotten,
        "clients_denied": tally.clients_denied,
        "since": when(tally.first_us),
        "until": when(tally.last_us),
        "rules": [_rule(rule, tally) for rule in found.ruleset.rules],
        "most_limited": [each._asdict() for each in tally.most_denied(most)],
        "paths": [{"request": path, "denied": count} for path, count in tally.paths.most_common(most)],
        "step_s": tally.timeline.step_s,
        "timeline": [
            {"at": when(step.at_s * US), "requests": step.requests, "denied": step.denied, "by_rule": step.by_rule}
            for step in tally.timeline.steps()
        ],
        "log": _log(found.reading),
        "effect": None if found.effect is None else effect_to_document(found.effect),
    }


def when(us: int | None) -> str | None:
    """A moment in ISO 8601, in UTC and whole seconds."""
    if us is None:
        return None
    return datetime.fromtimestamp(us // US, UTC).isoformat().replace("+00:00", "Z")


def limit_text(document: Mapping[str, Any]) -> str:
    """The limit of a rule, as it is written."""
    if "limit" in document:
        return str(document["limit"])
    return f"{document.get('capacity')} burst, {document.get('refill_per_sec')}/second"


def _rule(rule: Rule, tally: Tally) -> dict[str, Any]:
    count = tally.rules.get(rule.id) or RuleCount()
    requests = tally.applied[rule.id]
    return {
        "rule": rule.id,
        "limit": limit_text(rule.to_document()),
        "key_by": list(rule.key_by),
        "mode": rule.mode,
        "requests": requests,
        "denied": count.denied,
        "denied_ratio": _ratio(count.denied, requests),
        "clients_denied": len(count.clients),
        "would_deny": count.shadow,
        "clients_would_deny": len(count.shadow_clients),
        **({} if rule.candidate is None else _candidate(rule, count)),
        "first": when(count.first_us),
        "last": when(count.last_us),
    }


def _candidate(rule: Rule, count: RuleCount) -> dict[str, Any]:
    """What the limit beside the one in force would have done otherwise."""
    said = rule.to_document()["candidate"]
    return {"candidate": said, "candidate_denied": count.candidate_denied, "candidate_allowed": count.candidate_allowed}


def _log(reading: Reading) -> dict[str, Any]:
    return {
        "files": reading.files,
        "lines": reading.lines,
        "unreadable": reading.unreadable,
        "examples": [{"file": file, "line": line} for file, line in reading.examples],
        "damaged": [{"file": file, "why": why} for file, why in reading.damaged],
        "late": reading.late,
        "most_late_s": round(reading.most_late_us / US, 3),
        "fields_missing": reading.missing,
        "counted_by_address": reading.by_address,
    }


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
