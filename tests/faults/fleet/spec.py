"""What a gateway process is told when it starts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Load", "Spec"]


@dataclass
class Load:
    """Requests that come whether or not the ones before are answered: an open loop, spread by chance."""

    rate: float = 200.0
    """Requests a second to each gateway."""
    clients: int = 10_000
    zipf: float = 1.0
    """How much more often the first clients ask than the last; 0: all alike."""
    prefix: str = "c"
    """Clients are called c0, c1, …"""
    mix: list[tuple[str, float, int]] = field(default_factory=list)
    """(rule, weight, cost). Without any: all rules alike, at cost 1."""
    cancelled: float = 0.0
    """The part of the callers that give up by themselves, at a random moment of the first 4 ms."""
    seed: int = 0


@dataclass
class Spec:
    """One gateway process."""

    store: str
    rules: list[dict[str, Any]]
    """Arguments of `Rule`."""
    options: dict[str, Any]
    """Arguments of `AsyncLimiter`, besides."""
    load: Load
    folder: str
    number: int
    metrics: bool = True

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Spec:
        given = json.loads(text)
        return cls(**{**given, "load": Load(**given["load"])})
