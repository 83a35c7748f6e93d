"""From measurements to medians with their range, and to ratios within one round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from bench.case import Measured

__all__ = ["Spread", "cpu_us", "per_second", "ratio", "spread", "store_calls", "store_us", "wall_us"]


class Spread(NamedTuple):
    median: float
    min: float
    max: float


def spread(values: Sequence[float]) -> Spread:
    """Median and range, to four digits."""
    return Spread(*(float(f"{value:.4g}") for value in (median(values), min(values), max(values))))


def ratio(upper: Sequence[Measured], lower: Sequence[Measured], of: Callable[[Measured], float]) -> Spread:
    """How many times `lower` is in `upper`, round by round: what disturbs a round disturbs both."""
    return spread([of(one) / (of(other) or 1e-9) for one, other in zip(upper, lower, strict=True)])


def cpu_us(run: Measured) -> float:
    """CPU microseconds a check."""
    return run.cpu_s / run.checks * 1e6


def wall_us(run: Measured) -> float:
    return run.wall_s / run.checks * 1e6


def per_second(run: Measured) -> float:
    return run.checks / run.wall_s


def store_us(run: Measured) -> float:
    """CPU microseconds of the server a check."""
    return run.store_cpu_s / run.checks * 1e6


def store_calls(run: Measured) -> float:
    return run.store_calls / run.checks
