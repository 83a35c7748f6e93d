"""When a change of rules is held up, as it is set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from limen.errors import SettingsError

__all__ = ["GuardMode", "GuardSettings"]

GuardMode = Literal["off", "reason", "approval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """When a change is held up, and what lets it through.

    Attributes:
        mode: `reason`: a confirmed reason lets it through; `approval`: a second person; `off`: nothing is held up.
        percent: of all requests; a change that is predicted to deny more than that newly is held up.
        cut: a limit that shrinks by more than this factor is held up.
        watch_minutes: how long a change is compared with its prediction once it is in force; 0 never does.
    """

    mode: GuardMode = "reason"
    percent: float = 1.0
    cut: float = 10.0
    watch_minutes: float = 10.0

    def __post_init__(self) -> None:
        if self.mode not in get_args(GuardMode):
            raise SettingsError(f"guard is off, reason or approval, not {self.mode!r}")
        if not 0 <= self.percent <= 100:
            raise SettingsError(f"guard_percent must be between 0 and 100, not {self.percent}")
        if not 1 <= self.cut <= 1e9:
            raise SettingsError(f"guard_cut must be between 1 and 1e9, not {self.cut}")
        if not 0 <= self.watch_minutes <= 60:
            raise SettingsError(f"watch_minutes must be between 0 and 60, not {self.watch_minutes}")
