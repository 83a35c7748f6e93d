"""Limen for code that blocks, from one thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bench.case import Spend
from limen import Limiter, Rule

__all__ = ["check"]

BIG = Rule("big", limit="1000000/minute")


@asynccontextmanager
async def check(store: str) -> AsyncIterator[Spend]:
    """`Limiter.check` with a store. The deadline is long: a reply that is late on a busy machine is measured too."""
    with Limiter(f"valkey://{store}", rules=[BIG], deadline_ms=1000) as limiter:
        ask = limiter.check

        async def spend(clients: Sequence[str]) -> None:
            for client in clients:
                ask(client, "big")

        yield spend
