"""Logs of one line of text for each request: Common, Combined, and that of AWS load balancers.

A whole block of lines goes through one expression, which finds what cannot be read as well: that is several times as
fast as line by line. Quantifiers never step back, so the time grows with the length of a line and no faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from limen.rules.request import NO_HEADERS, Request
from limen.sim.record import Parsed, Record, Wanted, target
from limen.sim.times import Times

__all__ = ["AlbLog", "CombinedLog"]

METHOD = r"([A-Za-z][A-Za-z_-]{0,31}+)"
TARGET = r'((?:[^"\\\n ]++|\\.| (?!HTTP/))++)'
REQUEST = rf'"{METHOD} {TARGET}(?: HTTP/[^"\n]*+)?"'
QUOTED = r'"((?:[^"\\\n]++|\\.)*+)"'
UNREADABLE = r"(.++)"

_common = r"(\S++) \S++ ([^\[\n]*+)\[([^\]\n]++)\] " + REQUEST + r" (?:\d{3}|-)"
COMMON = re.compile(rf"^(?:{_common}.*+|{UNREADABLE})", re.MULTILINE)
COMBINED = re.compile(rf"^(?:{_common} \S++(?: {QUOTED} {QUOTED})?+.*+|{UNREADABLE})", re.MULTILINE)
"""Apache HTTP Server, mod_log_config; nginx, ngx_http_log_module."""

_head = r"[a-z0-9]++ (\S++) \S++ (\S++) \S++ \S++ \S++ \S++ \S++ \S++ \S++ \S++ "
ALB = re.compile(rf"^(?:{_head}{REQUEST}(?: {QUOTED})?+.*+|{UNREADABLE})", re.MULTILINE)
"""AWS, "Access logs for your Application Load Balancer": type, time, elb, client:port, target:port, three times of
processing, two status codes, bytes received and sent, the request, the user agent."""

ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.))")

MOST_TEXTS = 200_000

_new: Any = tuple.__new__


class CombinedLog:
    """Common and Combined Log Format; of the latter the referrer and the user agent, when rules want them."""

    name = "combined"
    fields = frozenset({"client", "user", "ip", "header.referer", "header.user-agent"})

    def __init__(self, wanted: Wanted = Wanted(), name: str = "combined") -> None:  # noqa: B008 - immutable
        self.name = name
        self._named = wanted.keyed_by == "client"
        self._headers = bool({"referer", "user-agent"} & set(wanted.headers))
        self._us = Times().us
        self._texts: dict[str, str] = {}
        """Texts that came before: one of each is kept, and not one for each line that waits to be decided."""

    def parse(self, block: str) -> Parsed:
        if len(self._texts) > MOST_TEXTS:
            self._texts.clear()
        parsed = Parsed([], [])
        parsed.records.extend(self._with_headers(block, parsed) if self._headers else self._bare(block, parsed))
        return parsed

    def _bare(self, block: str, parsed: Parsed) -> Iterator[Record]:
        us, named, known = self._us, self._named, self._texts.setdefault
        for ip, user, time, method, path, unreadable in COMMON.findall(block):
            at_us = us(time)
            if at_us is None:
                _note(parsed, unreadable or f'{ip} - {user}[{time}] "{method} {path}"')
                continue
            host = ""
            if path[0] != "/" or "\\" in path:
                host, path = target(unescaped(path))
            client = None if user == "- " or not named else user.strip() or None
            asked = known(method, method), known(path, path), host, client, None, client, known(ip, ip), NO_HEADERS
            yield at_us, _new(Request, asked)

    def _with_headers(self, block: str, parsed: Parsed) -> Iterator[Record]:
        for ip, user, time, method, path, referer, agent, unreadable in COMBINED.findall(block):
            at_us = self._us(time)
            if at_us is None:
                _note(parsed, unreadable or f'{ip} - {user}[{time}] "{method} {path}"')
                continue
            host, path = target(unescaped(path))
            client = None if user == "- " or not self._named else user.strip() or None
            headers = _headers(("referer", referer), ("user-agent", agent))
            yield at_us, Request(method, path, host, client, None, client, ip, headers)


class AlbLog:
    """The access log of an AWS Application Load Balancer. It names no client."""

    name = "alb"
    fields = frozenset({"ip", "host", "header.user-agent"})

    def __init__(self, wanted: Wanted = Wanted()) -> None:  # noqa: B008 - immutable
        self._us = Times().us

    def parse(self, block: str) -> Parsed:
        parsed = Parsed([], [])
        for time, peer, method, url, agent, unreadable in ALB.findall(block):
            at_us = self._us(time)
            if at_us is None:
                _note(parsed, unreadable or f"… {time} … {peer} … {method} {url}")
                continue
            host, path = target(unescaped(url))
            headers = _headers(("user-agent", agent))
            parsed.records.append((at_us, Request(method, path, host, ip=peer.rpartition(":")[0], headers=headers)))
        return parsed


def unescaped(text: str) -> str:
    """A text between quotes as it was before it was written there."""
    if "\\" not in text:
        return text
    return ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], text)


def _headers(*fields: tuple[str, str]) -> Mapping[str, str]:
    return MappingProxyType({name: unescaped(value) for name, value in fields if value not in ("", "-")})


def _note(parsed: Parsed, line: str) -> None:
    if line.strip():
        parsed.unreadable.append(line.rstrip("\r"))
