"""Tools for testing code that uses Limen."""

from limen.testing.clock import ManualClock
from limen.testing.conformance import STORE_PROMISES, store_conformance

__all__ = ["STORE_PROMISES", "ManualClock", "store_conformance"]
