"""Real processes of Limen, and an upstream that counts what reaches it."""

from tests.processes import limen, upstream

__all__ = ["limen", "upstream"]
