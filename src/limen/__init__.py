"""Limen: the rate limiter that is exact across a fleet."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_HOMES = {
    "AsyncLimiter": "limen.engine.aio",
    "Decision": "limen.core.decision",
    "Limiter": "limen.engine.limiter",
    "Request": "limen.rules.request",
    "Rule": "limen.rules.model",
    "RuleSet": "limen.rules.ruleset",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first used: the command line starts without the limiter."""
    if name not in __all__:
        raise AttributeError(f"module 'limen' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES.get(name, "limen.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
