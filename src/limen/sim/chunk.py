"""Some seconds of sampled requests as bytes, and back.

A chunk is compressed JSON: texts, each once; what was asked, each once, as numbers of texts; and how often that was
asked in each hundredth of a second. A client that floods a gateway is a number there, and not a flood.

    {"v": 1, "key": "…", "start": 17000000000, "texts": […], "asked": [[method, path, host, client, plan, user, ip,
    [header, value, …], rule, cost, weight], …], "at": [hundredths since the last, …], "what": [which of asked, …],
    "count": […]}

Nobody is in it by name (`pseudonyms`). Paths have no query. A segment of a path that looks like a secret or an address
of mail is replaced too, and the value of a header, unless a rule names it.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from limen.engine.sampler import Heard
from limen.errors import UsageError
from limen.rules.path import canonical_path
from limen.rules.request import NO_HEADERS, Request
from limen.sim.preview import Traced
from limen.sim.pseudonyms import Pseudonyms

__all__ = ["MOST_BYTES", "PATH", "Literals", "decode", "encode"]

VERSION = 1
SLOT_US = 10_000
MOST_BYTES = 32 << 20
"""What a chunk may unpack to."""
LONGEST = 512
LONGEST_SEGMENT = 100
UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
RUN = re.compile(r"[\w+=~]{20,}")
PATH = ":path"
"""Among the literals: the segments that rules name."""

Literals = Mapping[str, Collection[str]]
"""By the name of a header, or `PATH`: what rules name."""


def encode(heard: Iterable[Heard], pseudonyms: Pseudonyms, literals: Literals) -> tuple[bytes, int]:
    """Requests as a chunk, and how many rows it has."""
    table = _Table(pseudonyms, literals)
    counted = Counter((each.at_us // SLOT_US, table.asked(each)) for each in heard)
    rows = sorted(counted.items())
    start = rows[0][0][0] if rows else 0
    last, ats = start, []
    for (slot, _), _ in rows:
        ats.append(slot - last)
        last = slot
    chunk = {
        "v": VERSION,
        "key": pseudonyms.fingerprint,
        "start": start,
        "texts": list(table.texts),
        "asked": [list(key) for key in table.rows],
        "at": ats,
        "what": [what for (_, what), _ in rows],
        "count": [count for _, count in rows],
    }
    return zlib.compress(json.dumps(chunk, separators=(",", ":")).encode(), 6), len(rows)


def decode(chunk: bytes, pseudonyms: Pseudonyms) -> Iterator[Traced]:
    """The requests of a chunk, in the order of time; none when their names were made with another secret.

    Raises:
        UsageError: it is no chunk, or of another version.
    """
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(chunk, MOST_BYTES)
        if unpacker.unconsumed_tail:
            raise UsageError(f"a chunk of the sample unpacks to more than {MOST_BYTES >> 20} MiB")
        found = json.loads(text)
        if found["v"] != VERSION:
            raise UsageError(f"a chunk of the sample is of version {found['v']!r}, and this Limen reads {VERSION}")
        if found["key"] == pseudonyms.fingerprint:
            yield from _traced(found)
    except (zlib.error, ValueError, LookupError, TypeError) as error:
        raise UsageError(f"a chunk of the sample cannot be read: {error}") from error


class _Table:
    """Texts, and what was asked, each once."""

    def __init__(self, pseudonyms: Pseudonyms, literals: Literals) -> None:
        self.texts: dict[str, int] = {}
        self.rows: dict[tuple[Any, ...], int] = {}
        self._pseudonyms = pseudonyms
        self._literals = literals

    def asked(self, heard: Heard) -> int:
        """The number of what was asked."""
        request, names = heard.request, self._pseudonyms
        headers = [part for name, value in sorted(request.headers.items()) for part in (name, self._value(name, value))]
        key = (
            self._text(request.method),
            self._text(None if heard.rule else self._path(request.path)),
            self._text(request.host),
            self._text(request.client and names.name(request.client)),
            self._text(request.plan),
            self._text(request.user and names.name(request.user)),
            self._text(request.ip and names.address(request.ip[:LONGEST])),
            tuple(self._text(part) for part in headers),
            self._text(heard.rule),
            heard.cost,
            round(heard.weight, 6),
        )
        return self.rows.setdefault(key, len(self.rows))

    def _text(self, text: str | None) -> int:
        return -1 if text is None else self.texts.setdefault(text[:LONGEST], len(self.texts))

    def _value(self, name: str, value: str) -> str:
        return value if value in self._literals.get(name, ()) else self._pseudonyms.value(value)

    def _path(self, path: str) -> str:
        return "/".join(map(self._segment, canonical_path(path[:LONGEST]).split("/")))

    def _segment(self, text: str) -> str:
        if not _is_secret(text) or text in self._literals.get(PATH, ()):
            return text
        return self._pseudonyms.value(text)


def _is_secret(segment: str) -> bool:
    """Whether it has an @, a UUID, or 20 signs in a row that are letters as well as digits; or is very long."""
    if len(segment) > LONGEST_SEGMENT or "@" in segment or UUID.search(segment):
        return True
    return any(any(map(str.isdigit, run)) and any(map(str.isalpha, run)) for run in RUN.findall(segment))


def _traced(chunk: Mapping[str, Any]) -> Iterator[Traced]:
    texts = [*chunk["texts"], None]
    asked = [_asked(row, texts) for row in chunk["asked"]]
    slot = chunk["start"]
    for later, what, count in zip(chunk["at"], chunk["what"], chunk["count"], strict=True):
        slot += later
        yield asked[what]._replace(at_us=slot * SLOT_US, times=count)


def _asked(row: list[Any], texts: list[str | None]) -> Traced:
    method, path, host, client, plan, user, ip = (texts[number] for number in row[:7])
    parts = [texts[number] or "" for number in row[7]]
    headers = dict(zip(parts[::2], parts[1::2], strict=True)) or NO_HEADERS
    request = Request(method or "GET", path or "/", host or "", client, plan, user, ip, headers)
    return Traced(0, request, texts[row[8]], row[9], row[10])
