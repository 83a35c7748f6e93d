"""Errors of a server that is there: each has its treatment, none is a denial, none is asked for again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from limen.core.decision import Decision
from limen.engine.aio import AsyncLimiter
from limen.errors import StoreError
from limen.rules.model import Rule

Until = Callable[[Callable[[], object]], Awaitable[None]]
RULE = Rule("r", limit="50/minute")
LEFT = b":%d\r\n" % (10 * RULE.limit.token_ticks)
"""What a server answers that finds ten tokens."""
CANNOT_DECIDE = {
    "loading": b"-LOADING Valkey is loading the dataset in memory\r\n",
    "busy": b"-BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
    "cluster_down": b"-CLUSTERDOWN The cluster is down\r\n",
}


class Kinds:
    """What metrics would count."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def on_decision(self, decision: Decision, duration_us: int) -> None:
        """Not looked at."""

    def on_store_error(self, kind: str, shard: str) -> None:
        self.errors.append(kind)


@pytest.fixture
def kinds() -> Kinds:
    return Kinds()


@pytest.fixture
async def limiter(resp_server: Any, kinds: Kinds) -> AsyncIterator[AsyncLimiter]:
    async with AsyncLimiter(resp_server.url, [RULE], deadline_ms=2000, observer=kinds) as limiter:
        yield limiter


async def checks(limiter: AsyncLimiter, count: int) -> list[Decision]:
    return [await limiter.check("acme", "r") for _ in range(count)]


@pytest.mark.parametrize("kind", CANNOT_DECIDE)
async def test_RO_13_a_server_that_cannot_decide_is_left_alone_until_a_probe_is_answered(
    limiter: AsyncLimiter, resp_server: Any, kinds: Kinds, until: Until, kind: str
) -> None:
    resp_server.pong = CANNOT_DECIDE[kind]
    resp_server.answer = lambda words: CANNOT_DECIDE[kind]
    found = await checks(limiter, 200)
    assert all(each.degraded and each.source == "local_share" for each in found)
    assert limiter.store_state == "down"
    assert resp_server.questions == 5, "five refusals open the breaker, and nobody asks after that"
    assert set(kinds.errors) == {kind}
    resp_server.pong, resp_server.answer = b"+PONG\r\n", lambda words: LEFT
    await until(lambda: limiter.store_state == "up")
    assert (await limiter.check("acme", "r")).remaining == 9
    assert resp_server.connections == 1


async def test_RO_13_what_passes_at_once_opens_nothing(limiter: AsyncLimiter, resp_server: Any) -> None:
    resp_server.answer = lambda words: CANNOT_DECIDE["cluster_down"]
    assert all(each.degraded for each in await checks(limiter, 4))
    resp_server.answer = lambda words: LEFT
    decision = await limiter.check("acme", "r")
    assert (decision.source, decision.remaining, resp_server.connections) == ("store", 9, 1)


async def test_a_stuck_script_is_told_to_the_operator(
    limiter: AsyncLimiter, resp_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    resp_server.pong = CANNOT_DECIDE["busy"]
    resp_server.answer = lambda words: CANNOT_DECIDE["busy"]
    await checks(limiter, 20)
    [warning] = [record.message for record in caplog.records if "BUSY" in record.message]
    assert resp_server.url in warning
    assert "stop it with SCRIPT KILL" in warning


@pytest.mark.parametrize(
    "error",
    [
        b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        b"-ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -OOM command not allowed.\r\n",
    ],
)
async def test_a_full_memory_does_not_stop_those_who_need_none(
    limiter: AsyncLimiter, resp_server: Any, kinds: Kinds, error: bytes
) -> None:
    resp_server.answer = lambda words: error
    assert all(each.degraded for each in await checks(limiter, 30))
    assert set(kinds.errors) == {"full"}
    assert limiter.store_state == "up"
    assert resp_server.questions == 30
    with pytest.raises(StoreError, match=r"raise maxmemory, or set maxmemory-policy volatile-ttl"):
        await limiter.reset("acme", "r")


async def test_what_is_forbidden_is_asked_once_each_time(limiter: AsyncLimiter, resp_server: Any, kinds: Kinds) -> None:
    resp_server.answer = lambda words: b"-NOPERM User bob has no permissions to run the 'evalsha' command\r\n"
    await checks(limiter, 20)
    assert (resp_server.questions, resp_server.loads, resp_server.connections) == (20, 1, 1)
    assert set(kinds.errors) == {"no_permission"}
    with pytest.raises(StoreError, match="'evalsha' command; its user lacks a permission: limen doctor names it"):
        await limiter.reset("acme", "r")


async def test_a_script_that_may_not_be_loaded_says_so_and_costs_no_storm(resp_server: Any, kinds: Kinds) -> None:
    resp_server.loaded = b"-NOPERM User bob has no permissions to run the 'script|load' command\r\n"
    resp_server.answer = lambda words: b"-NOSCRIPT No matching script.\r\n"
    async with AsyncLimiter(resp_server.url, [RULE], deadline_ms=2000, observer=kinds) as limiter:
        await checks(limiter, 50)
        assert set(kinds.errors) == {"no_permission"}
        assert resp_server.questions <= 100
        assert resp_server.loads <= 2
        with pytest.raises(StoreError, match=r"script\|load"):
            await limiter.reset("acme", "r")


async def test_RO_01_fifty_at_once_load_a_lost_script_once(limiter: AsyncLimiter, resp_server: Any) -> None:
    known = False

    async def answer(words: list[bytes]) -> bytes:
        return LEFT if known else b"-NOSCRIPT No matching script.\r\n"

    async def load(words: list[bytes]) -> bytes | None:
        nonlocal known
        known = known or words[0] == b"SCRIPT"
        return await original(words)

    original, resp_server._reply = resp_server._reply, load
    resp_server.answer = answer
    found = await asyncio.gather(*(limiter.check(f"c{at}", "r") for at in range(50)))
    assert {(each.source, each.remaining) for each in found} == {("store", 9)}
    assert resp_server.loads == 2, "once at login, once now"
    assert resp_server.questions == 100, "one more trip each"


async def test_a_script_that_is_lost_again_and_again_ends(
    limiter: AsyncLimiter, resp_server: Any, kinds: Kinds
) -> None:
    resp_server.answer = lambda words: b"-NOSCRIPT No matching script.\r\n"
    await checks(limiter, 10)
    assert set(kinds.errors) == {"no_script"}
    assert resp_server.questions == 20


@pytest.mark.parametrize(
    "error",
    [
        b"-READONLY You can't write against a read only replica. script: abc, on @user_script:1.\r\n",
        b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
        b"-ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -READONLY You can't write.\r\n",
    ],
)
async def test_RO_04_the_first_answer_of_a_replica_ends_its_connection(
    limiter: AsyncLimiter, resp_server: Any, until: Until, error: bytes
) -> None:
    resp_server.answer = lambda words: error
    assert (await limiter.check("acme", "r")).degraded
    await until(lambda: resp_server.connections == 2)
    await until(lambda: limiter.store_state == "up")
    resp_server.answer = lambda words: LEFT
    assert (await limiter.check("acme", "r")).remaining == 9


async def test_a_replica_that_stays_one_is_asked_ever_less_often(
    limiter: AsyncLimiter, resp_server: Any, until: Until
) -> None:
    """At most five attempts in a second, spread; the connections are counted, and the pauses between them add up."""
    resp_server.answer = lambda words: b"-READONLY You can't write against a read only replica.\r\n"
    began = asyncio.get_running_loop().time()
    while resp_server.connections < 6:
        assert (await limiter.check("acme", "r")).degraded
        await asyncio.sleep(0.001)  # the pace of asking
    assert asyncio.get_running_loop().time() - began > 5 * 0.02


async def test_a_password_that_was_set_meanwhile_ends_the_connection(
    limiter: AsyncLimiter, resp_server: Any, kinds: Kinds, until: Until
) -> None:
    resp_server.answer = lambda words: b"-NOAUTH Authentication required.\r\n"
    await checks(limiter, 1)
    assert kinds.errors == ["login"]
    await until(lambda: resp_server.connections == 2)


async def test_a_node_of_a_cluster_says_how_to_write_its_url(limiter: AsyncLimiter, resp_server: Any) -> None:
    resp_server.answer = lambda words: b"-MOVED 3999 127.0.0.1:6381\r\n"
    await checks(limiter, 3)
    assert resp_server.questions == 3
    with pytest.raises(StoreError, match=r"MOVED 3999 .*begin the store URL with valkey\+cluster://"):
        await limiter.reset("acme", "r")


async def test_a_server_that_hangs_up_after_each_login_is_not_stormed(resp_server: Any, kinds: Kinds) -> None:
    """The pauses between six attempts add up: at least five times the shortest."""
    resp_server.answer = lambda words: None
    async with AsyncLimiter(resp_server.url, [RULE], deadline_ms=2000, observer=kinds) as limiter:
        began = asyncio.get_running_loop().time()
        while resp_server.connections < 6:
            if limiter.store_state == "up":
                resp_server.hang_up()
            await asyncio.sleep(0.001)  # the pace of looking
        assert asyncio.get_running_loop().time() - began > 5 * 0.02
        assert (await limiter.check("acme", "r")).degraded
