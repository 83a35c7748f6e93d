"""Limen: the rate limiter that is exact across a fleet."""

from limen.core.decision import Decision
from limen.engine.aio import AsyncLimiter
from limen.engine.limiter import Limiter
from limen.errors import LimenError, RateLimited, RuleError, StoreError, UsageError
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet

__all__ = [
    "AsyncLimiter",
    "Decision",
    "LimenError",
    "Limiter",
    "RateLimited",
    "Request",
    "Rule",
    "RuleError",
    "RuleSet",
    "StoreError",
    "UsageError",
]
