"""One spelling for every path, so that no spelling escapes its rule.

Servers and routers treat many spellings of a path as one: `/login`, `//login`, `/./login`, `/x/../login`,
`/login/`, `/login;v=1`, `/%6Cogin`. Rules match the canonical form below (RFC 3986 section 6.2.2, plus what common
routers forgive); signs that would mean something if they stood bare (`%`, `;`, `?`, `#`) stay encoded in it. Where
spellings are really ambiguous, because servers disagree (`%2F`, `\\`, encoded dots, control characters),
`is_ambiguous` says so and a gateway refuses the request.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

__all__ = ["canonical_path", "is_ambiguous", "segments_of"]

PLAIN = re.compile(r"/|(?:/[^/.%;?#\\][^/%;?#\\]*+)++")
"""A path that is canonical as it stands, as most are. The quantifiers never step back: time grows with the length."""

KEPT_ENCODED = str.maketrans({sign: f"%{ord(sign):02X}" for sign in "%;?#"})

AMBIGUOUS = re.compile(r"%(?:2f|5c|2e|00|0a|0d|25(?:2f|5c|2e))|[\\\x00-\x1f\x7f]", re.IGNORECASE)


def canonical_path(raw: str) -> str:
    """The spelling under which rules know `raw`: decoded, without query, parameters, dots, doubled or final slashes.

    It is the canonical spelling of itself.
    """
    if PLAIN.fullmatch(raw):
        return raw
    return "/" + "/".join(_resolve(raw))


def segments_of(canonical: str) -> list[str]:
    """The segments of a canonical path; none for `/`."""
    return canonical[1:].split("/") if len(canonical) > 1 else []


def is_ambiguous(raw: str) -> bool:
    """Whether servers would disagree on which resource the path names."""
    return AMBIGUOUS.search(raw.partition("?")[0]) is not None


def _resolve(raw: str) -> list[str]:
    path = raw.partition("#")[0].partition("?")[0]
    kept: list[str] = []
    for written in path.replace("\\", "/").split("/"):
        for segment in unquote(written.partition(";")[0]).replace("\\", "/").split("/"):
            if segment == "..":
                del kept[-1:]
            elif segment not in ("", "."):
                kept.append(segment.translate(KEPT_ENCODED))
    return kept
