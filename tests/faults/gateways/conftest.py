"""Real gateways and services, to be started, frozen, killed and told to stop."""

from tests.processes import limen, upstream

__all__ = ["limen", "upstream"]
