"""Options of the guard, and of what somebody says about their change. Light on purpose: `limen --help` loads this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from limen.admin.guard_settings import GuardSettings
    from limen.admin.records import Signature

__all__ = ["Guarded", "Signed", "guard_settings", "signed_by"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Guarded:
    """When a change of rules is held up."""

    guard: str = "reason"
    "What lets a dangerous change through: a confirmed reason, the approval of a second person; off holds nothing up."
    guard_percent: float = 1.0
    "A change that is predicted to deny more than so many per cent of the requests newly is dangerous."
    guard_cut: float = 10.0
    "So is a limit that shrinks by more than this factor."
    watch_minutes: float = 10.0
    "How long a change is compared with its prediction, and taken back when it does more harm; 0 never does."


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Signed:
    """What somebody says about their change."""

    reason: str = ""
    "Why; it is kept with the change."
    confirm: Annotated[bool, Parameter(negative="")] = False
    "I have seen what this does, and want it all the same."


def guard_settings(options: Guarded) -> GuardSettings:
    """When a change is held up, checked."""
    from limen.admin.guard_settings import GuardSettings

    return GuardSettings(
        mode=options.guard,  # type: ignore[arg-type] # whatever was written; it is checked there
        percent=options.guard_percent,
        cut=options.guard_cut,
        watch_minutes=options.watch_minutes,
    )


def signed_by(options: Signed) -> Signature:
    """Somebody on this machine, who has the database itself."""
    from limen.admin.records import UNSIGNED

    return UNSIGNED._replace(reason=options.reason.strip(), confirmed=options.confirm)
