"""What begins anew in a child process after a fork. Nothing here runs in the parent, and no call looks for a fork."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["begin_anew_after_fork"]


class Forked(Protocol):
    """Something that must not go on in a child where the parent was: it has sockets, locks or threads."""

    def begin_after_fork(self) -> None: ...


_known: WeakSet[Forked] = WeakSet()


def begin_anew_after_fork(thing: Forked) -> None:
    """Call its `begin_after_fork` in every child, for as long as it lives."""
    _known.add(thing)


def _in_child() -> None:
    for thing in list(_known):
        thing.begin_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
