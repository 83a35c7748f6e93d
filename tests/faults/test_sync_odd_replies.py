"""The same for code that blocks: a server that answers, but not what was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from limen.core.decision import Decision
from limen.engine.limiter import Limiter
from limen.rules.request import Request
from tests.faults.test_odd_replies import KINDS, REPLIES, Kinds, rules


async def decided(url: str, ask: Callable[[Limiter], list[Decision]], **options: Any) -> list[Decision]:
    """In a thread: the server answers from this one."""

    def run() -> list[Decision]:
        with Limiter(url, deadline_ms=2000, **options) as limiter:
            return ask(limiter)

    return await asyncio.to_thread(run)


@pytest.mark.parametrize("on_failure", ["open", "closed"])
@pytest.mark.parametrize("name", REPLIES)
async def test_FM_02_every_shape_of_failure_follows_the_policy(resp_server: Any, name: str, on_failure: str) -> None:
    resp_server.answer = lambda words: REPLIES[name]
    kinds = Kinds()

    def ask(limiter: Limiter) -> list[Decision]:
        found = [limiter.check_request(Request(client="acme")) for _ in range(3)]
        return [*found, limiter.check("acme", "minute")]

    found = await decided(resp_server.url, ask, rules=rules(on_failure), observer=kinds)
    assert {(each.allowed, each.degraded, each.status) for each in found} == {
        (True, True, 200) if on_failure == "open" else (False, True, 503)
    }
    assert set(kinds.errors) <= {KINDS.get(name, "refused"), "down"}  # a replica is left, and looked for anew
    assert kinds.errors[0] == KINDS.get(name, "refused")
    assert len(kinds.errors) == 4


async def test_FM_02_an_error_is_not_asked_again(resp_server: Any) -> None:
    resp_server.answer = lambda words: b"-NOPERM no permission\r\n"
    await decided(
        resp_server.url, lambda limiter: [limiter.check("acme", "minute") for _ in range(10)], rules=rules("open")
    )
    assert resp_server.questions == 10
    assert resp_server.connections == 1


async def test_a_server_that_cannot_decide_is_left_alone_for_a_while(resp_server: Any) -> None:
    """LOADING at each question: some are asked, then it is probed, and who asks meanwhile is decided at once."""
    resp_server.answer = lambda words: b"-LOADING Valkey is loading the dataset in memory\r\n"
    kinds = Kinds()
    await decided(
        resp_server.url,
        lambda limiter: [limiter.check("acme", "minute") for _ in range(300)],
        rules=rules("open"),
        observer=kinds,
    )
    assert kinds.errors[:5] == ["loading"] * 5
    assert "down" in kinds.errors


async def test_a_reply_with_something_behind_it_is_used_for_nobody_else(resp_server: Any) -> None:
    """A server that answers twice is not one that we understand."""
    resp_server.answer = lambda words: b":60480000000000\r\n:666\r\n"
    found = await decided(
        resp_server.url, lambda limiter: [limiter.check("acme", "minute") for _ in range(5)], rules=rules("open")
    )
    assert all(each.degraded for each in found)
