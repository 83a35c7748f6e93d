"""Which formats of logs there are, and which one a log is in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from limen.errors import UsageError
from limen.sim.json_logs import ENVOY, JSON_LINES, NGINX, JsonLog
from limen.sim.record import LogFormat, Wanted
from limen.sim.text_logs import AlbLog, CombinedLog

__all__ = ["FORMATS", "find_format", "log_format"]

FORMATS: Mapping[str, Callable[[Wanted], LogFormat]] = {
    "combined": CombinedLog,
    "common": lambda wanted: CombinedLog(wanted, "common"),
    "alb": AlbLog,
    "nginx-json": lambda wanted: JsonLog("nginx-json", NGINX, wanted),
    "envoy-json": lambda wanted: JsonLog("envoy-json", ENVOY, wanted),
    "jsonl": lambda wanted: JsonLog("jsonl", JSON_LINES, wanted),
}

LOOKED_AT = 50
"""Lines from which the format is found out."""
SHOWN = 80

OF_ENVOY = {"start_time", "authority", "downstream_remote_address", "response_flags", "upstream_cluster"}
OF_NGINX = {"time_iso8601", "time_local", "msec", "remote_addr", "request_uri", "request_method", "http_user_agent"}


def log_format(name: str, wanted: Wanted) -> LogFormat:
    """The format of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in FORMATS:
        raise UsageError(f"there is no log format {name!r}; there are {', '.join(FORMATS)}")
    return FORMATS[name](wanted)


def find_format(block: str, wanted: Wanted, file: str) -> LogFormat:
    """The format that most of the first lines are in.

    Raises:
        UsageError: they are in none that is known.
    """
    lines = [line for line in block.split("\n", LOOKED_AT)[:LOOKED_AT] if line.strip()]
    votes = Counter(name for name in map(_format_of, lines) if name is not None)
    if not votes:
        shown = f": {lines[0][:SHOWN]!r}" if lines else ""
        raise UsageError(f"{file}: no line of the first {len(lines)} is of a format that is known{shown}; name one "
                         f"with --format {'|'.join(FORMATS)}")  # fmt: skip
    return log_format(votes.most_common(1)[0][0], wanted)


def _format_of(line: str) -> str | None:
    if line.lstrip().startswith("{"):
        return _json_format(line)
    for name in ("combined", "alb"):
        if log_format(name, Wanted()).parse(line).records:
            return name
    return None


def _json_format(line: str) -> str | None:
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    names = set(found) if isinstance(found, dict) else set()
    likely = "envoy-json" if len(names & OF_ENVOY) >= 2 else "nginx-json" if len(names & OF_NGINX) >= 2 else "jsonl"
    for name in (likely, "jsonl", "nginx-json", "envoy-json"):
        if log_format(name, Wanted()).parse(line).records:
            return name
    return None
