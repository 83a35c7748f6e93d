"""Who asks in a rule test, how often and when."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil
from types import MappingProxyType
from typing import Any

from limen.core.limit import Limit
from limen.errors import UsageError
from limen.rules.case import Ask, ByName, Stream
from limen.rules.client_ip import parse_address
from limen.rules.cost import check_cost
from limen.rules.duration import duration_s
from limen.rules.limit_text import limit_from_text
from limen.rules.request import Request

__all__ = ["ask_from", "streams_from", "unknown_field"]

REQUEST_FIELDS = ("method", "path", "host", "client", "plan", "user", "ip", "header")
BY_NAME_FIELDS = ("client", "rule", "cost")
STREAM_FIELDS = ("request", "times", "every", "rate", "for", "after")
MOST_ASKED = 1_000_000
"""Requests of one test: what is decided in some seconds."""
MOST_SECONDS = 3_000_000_000
"""About a hundred years."""


def ask_from(raw: object) -> Ask:
    """A question: attributes of a request, or `{client, rule, cost}`.

    Raises:
        UsageError: names the field, and says what to write instead.
    """
    if not isinstance(raw, Mapping):
        raise UsageError(f"is a mapping such as {{method: GET, path: /v1/search, client: acme}}, not {raw!r}")
    if "rule" in raw:
        return _by_name(raw)
    _refuse_unknown(raw, REQUEST_FIELDS, "a request")
    texts = {name: _text(raw, name) for name in REQUEST_FIELDS[:-1] if raw.get(name) is not None}
    if not texts.get("path", "/").startswith("/"):
        raise UsageError(f"the path begins with '/', not {texts['path']!r}")
    if "ip" in texts and parse_address(texts["ip"]) is None:
        raise UsageError(f"{texts['ip']!r} is not an address; write it as 192.0.2.7 or 2001:db8::7")
    return Request(**texts, headers=_headers(raw.get("header")))


def streams_from(raw: object, ask: Ask | None) -> tuple[Stream, ...]:
    """One stream of requests, or several that run beside each other.

    Args:
        ask: what is asked where a stream does not say it.

    Raises:
        UsageError: names the field, and says what to write instead.
    """
    raws = raw if isinstance(raw, list) else [raw]
    if not raws:
        raise UsageError("is empty; write {times: 200, every: 100ms}")
    streams = tuple(_stream(each, ask) for each in raws)
    asked = sum(stream.times for stream in streams)
    if asked > MOST_ASKED:
        raise UsageError(f"these are {asked:,} requests, and a test sends {MOST_ASKED:,} at most")
    return streams


def unknown_field(field: str, fields: Sequence[str], what: str) -> str:
    """That there is no such field, and what was meant, or what there is."""
    close = difflib.get_close_matches(field, fields, 1)
    return f"there is no {field!r}; " + (f"did you mean {close[0]!r}?" if close else f"{what} has {', '.join(fields)}")


def _by_name(raw: Mapping[Any, Any]) -> ByName:
    _refuse_unknown(raw, BY_NAME_FIELDS, "a check by name")
    if "client" not in raw:
        raise UsageError("a check by name has a client too: {client: acme, rule: search}")
    return ByName(_text(raw, "client"), _text(raw, "rule"), check_cost(raw.get("cost", 1)))


def _stream(raw: object, ask: Ask | None) -> Stream:
    if not isinstance(raw, Mapping):
        raise UsageError(f"is a mapping such as {{times: 200, every: 100ms}}, or a list of them, not {raw!r}")
    _refuse_unknown(raw, STREAM_FIELDS, "a traffic")
    asked = ask_from(raw["request"]) if "request" in raw else ask
    if asked is None:
        raise UsageError("nobody knows what is sent; write request: {path: /v1/search, client: acme}")
    interval_us = _interval_us(raw)
    return Stream(asked, _times(raw, interval_us), interval_us, _us(raw, "after") if "after" in raw else 0)


def _interval_us(raw: Mapping[Any, Any]) -> Fraction:
    if "rate" in raw and "every" in raw:
        raise UsageError("give either rate or every, not both")
    if "every" in raw:
        return Fraction(_us(raw, "every"))
    if "rate" not in raw:
        return Fraction(0)
    limit = limit_from_text(raw["rate"], "token_bucket") if isinstance(raw["rate"], str) else None
    if not isinstance(limit, Limit) or not limit.refill_per_sec:
        raise UsageError(f"rate is so many in such a time, such as 10/second, not {raw['rate']!r}")
    return 1_000_000 / limit.refill_per_sec


def _times(raw: Mapping[Any, Any], interval_us: Fraction) -> int:
    if ("times" in raw) == ("for" in raw):
        raise UsageError("give either times: 200, or for: 1m with a rate or every")
    if "times" in raw:
        if type(raw["times"]) is not int or raw["times"] < 1:
            raise UsageError(f"times is a whole number from 1, not {raw['times']!r}")
        return int(raw["times"])
    if not interval_us:
        raise UsageError("'for' needs a rate, such as 10/second, or every")
    return max(1, ceil(_us(raw, "for") / interval_us))


def _us(raw: Mapping[Any, Any], name: str) -> int:
    seconds = duration_s(raw[name])
    if not 0 <= seconds <= MOST_SECONDS:
        raise UsageError(f"{name} is a length of time from 0 to a hundred years, not {raw[name]!r}")
    return round(seconds * 1_000_000)


def _headers(raw: object) -> Mapping[str, str]:
    if raw is None:
        return MappingProxyType({})
    if not isinstance(raw, Mapping) or not all(isinstance(value, str) for value in raw.values()):
        raise UsageError(f"header is a mapping of texts such as {{x-tier: gold}}, not {raw!r}; put numbers in quotes")
    return MappingProxyType({str(name).lower(): value for name, value in raw.items()})


def _text(raw: Mapping[Any, Any], name: str) -> str:
    value = raw[name]
    if not isinstance(value, str) or not value:
        raise UsageError(f"{name} is a text that is not empty, not {value!r}; put it in quotes")
    return value


def _refuse_unknown(raw: Mapping[Any, Any], fields: Sequence[str], what: str) -> None:
    for field in raw:
        if field not in fields:
            raise UsageError(unknown_field(str(field), fields, what))
