"""Real gateways and services, to be started, frozen, killed and told to stop."""

from tests.faults.gateways.members import http, member, rules_db
from tests.processes import limen, upstream

__all__ = ["http", "limen", "member", "rules_db", "upstream"]
