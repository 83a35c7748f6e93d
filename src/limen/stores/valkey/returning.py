"""A server that decides again may have forgotten what it said last: whoever remembers that is told in time."""

from __future__ import annotations

import logging
from collections.abc import Callable

from limen.stores.valkey.names import PREVIOUS

__all__ = ["Concerned", "OnReturn", "both_secrets", "tell"]

log = logging.getLogger("limen.store")

Concerned = Callable[[str, str], bool]
"""Whether the buckets of an identity, under a label, are kept by the servers in question."""
OnReturn = Callable[[Concerned], None]


def tell(on_return: OnReturn | None, concerned: Concerned) -> None:
    """Call it, if there is one. What goes wrong in it must not keep a server from deciding."""
    if on_return is None:
        return
    try:
        on_return(concerned)
    except Exception:
        log.exception("what was decided last could not be looked up; it is not brought back to the store")


def both_secrets(on_return: OnReturn | None) -> OnReturn | None:
    """The same where each bucket is kept by two secrets."""
    if on_return is None:
        return None

    def returned(concerned: Concerned) -> None:
        on_return(lambda identity, label: concerned(identity, label) or concerned(PREVIOUS + identity, label))

    return returned
