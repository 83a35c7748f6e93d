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
    from limen.rules.standing import Block, Flag, Override, Standing

__all__ = [
    "AsyncLimiter",
    "Block",
    "Decision",
    "Flag",
    "LimenError",
    "Limiter",
    "Override",
    "RateLimited",
    "Request",
    "Rule",
    "RuleError",
    "RuleSet",
    "Standing",
    "StoreError",
    "UsageError",
]

_HOMES = {
    "AsyncLimiter": "limen.engine.aio",
    "Block": "limen.rules.standing",
    "Decision": "limen.core.decision",
    "Flag": "limen.rules.standing",
    "Limiter": "limen.engine.limiter",
    "Override": "limen.rules.standing",
    "Request": "limen.rules.request",
    "Rule": "limen.rules.model",
    "RuleSet": "limen.rules.ruleset",
    "Standing": "limen.rules.standing",
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
