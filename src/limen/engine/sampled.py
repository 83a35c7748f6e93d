"""A limiter whose requests are sampled. Whoever samples nothing uses `AsyncLimiter`, which knows nothing of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from limen.core.decision import Decision
from limen.engine.aio import AsyncLimiter
from limen.engine.deciding import Question, with_cost
from limen.engine.sampler import Sampler
from limen.rules.request import Request

__all__ = ["SampledLimiter"]


class SampledLimiter(AsyncLimiter):
    """An `AsyncLimiter` that shows every request that it decided to a sampler.

    Args:
        sampler: remembers some of them.
        arguments: of `AsyncLimiter`.
    """

    def __init__(self, sampler: Sampler, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.sampler = sampler

    async def check(self, client: str, rule: str, cost: int = 1) -> Decision:
        decision = await super().check(client, rule, cost)
        self.sampler.named(client, rule, cost, decision)
        return decision

    async def check_request(self, request: Request) -> Decision:
        decision = await super().check_request(request)
        self.sampler.asked(request, decision)
        return decision

    async def check_many(self, questions: Iterable[Question]) -> list[Decision]:
        asked = list(questions)
        decisions = await super().check_many(asked)
        for question, decision in zip(asked, decisions, strict=True):
            self.sampler.named(*with_cost(question), decision)
        return decisions
