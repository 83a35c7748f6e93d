"""How thorough a run is."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FULL", "QUICK", "Settings"]


class Settings(NamedTuple):
    rounds: int
    """How often each row is measured, in turn."""
    seconds: float
    """About how long each measurement takes; of `hang`, how long the store stands still."""


FULL = Settings(5, 0.4)
QUICK = Settings(1, 0.005)
