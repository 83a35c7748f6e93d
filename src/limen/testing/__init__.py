"""Tools for testing code that uses Limen."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limen.testing.checker import IntervalChecker, Overshoot
    from limen.testing.clock import ManualClock
    from limen.testing.conformance import STORE_PROMISES, store_conformance
    from limen.testing.proxy import FaultProxy

__all__ = ["STORE_PROMISES", "FaultProxy", "IntervalChecker", "ManualClock", "Overshoot", "store_conformance"]

_HOMES = {
    "FaultProxy": "limen.testing.proxy",
    "IntervalChecker": "limen.testing.checker",
    "ManualClock": "limen.testing.clock",
    "Overshoot": "limen.testing.checker",
}


def __getattr__(name: str) -> object:
    """Load a tool when it is first used: pytest looks into this package at each start."""
    if name not in __all__:
        raise AttributeError(f"module 'limen.testing' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES.get(name, "limen.testing.conformance")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
