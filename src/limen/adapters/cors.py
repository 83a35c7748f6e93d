"""Letting scripts in browsers read the fields: `Access-Control-Expose-Headers`. Pure."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["RawHeaders", "exposed"]

RawHeaders = list[tuple[bytes, bytes]]

ALLOW_ORIGIN = b"access-control-allow-origin"
EXPOSE = b"access-control-expose-headers"


def exposed(headers: RawHeaders, names: Iterable[bytes], cross_origin: bool) -> RawHeaders:
    """`headers` with `names` made readable, when the response goes to another origin.

    Args:
        headers: of the response, names in lower case.
        names: the fields that we added.
        cross_origin: the request had an Origin. The layer that allows it may stand outside of us and still add
            Access-Control-Allow-Origin; the field that exposes names does nothing without that one.
    """
    if not cross_origin and all(name != ALLOW_ORIGIN for name, _ in headers):
        return headers
    written = [value for name, value in headers if name == EXPOSE]
    known = {name.strip().lower() for value in written for name in value.split(b",")}
    missing = [name for name in names if name not in known]
    if not missing:
        return headers
    kept = [header for header in headers if header[0] != EXPOSE]
    return [*kept, (EXPOSE, b", ".join([*written, *missing]))]
