"""Tools for testing code that uses Limen."""

from limen.testing.clock import ManualClock

__all__ = ["ManualClock"]
