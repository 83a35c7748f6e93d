"""How thorough a run is."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FULL", "QUICK", "Settings"]


class Settings(NamedTuple):
    rounds: int
    """How often each row is measured, in turn."""
    seconds: float
    """About how long each measurement takes; of `hang`, how long the store stands still."""
    clients: int
    """Of `memory`: how many clients the store holds."""
    cancellations: int
    """Of `cancel`: how many checks are cancelled."""
    keys: int
    """Of `flood`: how many hostile clients come."""
    rules: int
    """Of `swap`: how many there are."""
    lines: int
    """Of `replay`: how many the log has."""


FULL = Settings(5, 0.4, clients=10_000_000, cancellations=1_000_000, keys=400_000, rules=10_000, lines=1_000_000)
QUICK = Settings(1, 0.005, clients=2_000, cancellations=500, keys=2_000, rules=200, lines=2_000)
