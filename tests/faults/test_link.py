"""One connection for everybody: whatever is late or given up, no answer reaches another question."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any

import hiredis
import pytest

from limen.core.in_flight import CEILING, InFlight
from limen.errors import StoreError
from limen.stores.valkey.connect import open_link
from limen.stores.valkey.link import Link
from limen.stores.valkey.url import parse_endpoint

Until = Callable[[Callable[[], object]], Awaitable[None]]


def echo(words: list[bytes]) -> bytes:
    return b":%d\r\n" % int(words[1])


def question(number: int) -> bytes:
    return hiredis.pack_command(("ECHO", number))


@pytest.fixture
async def link(resp_server: Any) -> AsyncIterator[Link]:
    resp_server.answer = echo
    link = await open_link(parse_endpoint(resp_server.url), 0.01, 5)
    yield link
    link.close()
    await link.lost


class Everything(InFlight):
    """No bound: what is late is asked too."""

    def too_slow(self, answered: int, age_s: float, aim_s: float) -> None:
        """Never."""


@pytest.mark.parametrize("seed", range(3))
async def test_every_answer_belongs_to_its_question(link: Link, resp_server: Any, seed: int) -> None:
    """A server that stutters, callers that give up and deadlines that pass: 3 000 questions each time."""
    random, outcomes = Random(seed), {"answered": 0, "late": 0, "cancelled": 0}
    link.in_flight = Everything()

    async def stuttering(words: list[bytes]) -> bytes:
        if random.random() < 0.01:
            await asyncio.sleep(random.uniform(0, 0.03))  # the server's hesitation
        return echo(words)

    resp_server.answer = stuttering

    async def caller(number: int) -> None:
        try:
            async with asyncio.timeout(random.choice([None, None, 0.002, 0.01])):
                assert await link.ask(question(number)) == number
            outcomes["answered"] += 1
        except StoreError as error:
            outcomes["late" if error.kind == "timeout" else error.kind] += 1
        except TimeoutError:
            outcomes["cancelled"] += 1

    for wave in range(100):
        await asyncio.gather(*(caller(wave * 30 + at) for at in range(30)))
        await asyncio.sleep(0)
    assert sum(outcomes.values()) == 3000
    assert min(outcomes["answered"], outcomes["late"], outcomes["cancelled"]) > 10
    assert resp_server.connections == 1


async def test_a_late_reply_is_thrown_away(link: Link, resp_server: Any, until: Until) -> None:
    release = asyncio.Event()

    async def held(words: list[bytes]) -> bytes:
        await release.wait()
        return echo(words)

    resp_server.answer = held
    for number in range(3):
        with pytest.raises(StoreError, match="no answer from the store within 10 ms") as caught:
            await link.ask(question(number))
        assert caught.value.kind == "timeout"
    assert link.misses == 3
    release.set()
    await until(lambda: resp_server.questions == 3 and link.misses == 0)
    assert await link.ask(question(7)) == 7


async def test_questions_of_one_turn_leave_together_and_are_answered_in_order(link: Link) -> None:
    futures = [link.ask(question(number)) for number in range(500)]
    assert await asyncio.gather(*futures) == list(range(500))


async def test_an_error_is_an_answer(link: Link, resp_server: Any) -> None:
    resp_server.answer = lambda words: b"-ERR no such thing\r\n"
    reply = await link.ask(question(1))
    assert isinstance(reply, hiredis.ReplyError)
    assert str(reply) == "ERR no such thing"


async def test_who_waits_when_the_connection_is_cut_is_told_so(link: Link, resp_server: Any, until: Until) -> None:
    resp_server.answer = lambda words: None
    futures = [link.ask(question(number), 5) for number in range(20)]
    await until(lambda: resp_server.questions == 20)
    resp_server.hang_up()
    found = await asyncio.gather(*futures, return_exceptions=True)
    assert {(type(each), each.kind) for each in found if isinstance(each, StoreError)} == {(StoreError, "down")}
    await link.lost
    with pytest.raises(StoreError, match="connection to the store is lost"):
        link.ask(question(1))


async def test_what_is_in_flight_is_bounded(link: Link, resp_server: Any) -> None:
    resp_server.answer = lambda words: None
    futures = [link.ask(question(number)) for number in range(CEILING)]
    with pytest.raises(StoreError, match="8192 questions to the store are in flight") as caught:
        link.ask(question(0))
    assert caught.value.kind == "overload"
    found = await asyncio.gather(*futures, return_exceptions=True)
    assert {type(each) for each in found} == {StoreError}


@pytest.mark.parametrize(
    "garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"$-7\r\n", b"\x15\x03\x01", b"*2\r\n:1\r\n+"]
)
async def test_who_does_not_speak_our_language_answers_nothing(link: Link, resp_server: Any, garbage: bytes) -> None:
    resp_server.answer = lambda words: garbage
    with pytest.raises(StoreError, match=r"lost|no answer"):
        await link.ask(question(1))


async def test_who_answers_what_nobody_asked_is_hung_up_on(link: Link, resp_server: Any) -> None:
    resp_server.answer = lambda words: b":1\r\n:2\r\n"
    assert await link.ask(question(1)) == 1
    await link.lost
    with pytest.raises(StoreError, match="is lost"):
        link.ask(question(1))


async def test_a_busy_process_does_not_blame_the_store(valkey_url: str) -> None:
    link = await open_link(parse_endpoint(valkey_url), 0.01, 5)
    for stall_s in (0.02, 0.1, 0.2):
        futures = [link.ask(question(number)) for number in range(50)]
        time.sleep(stall_s)  # noqa: ASYNC251 - the fault: an event loop that somebody blocks
        assert await asyncio.gather(*futures) == [b"%d" % number for number in range(50)]
    assert link.misses == 0
    link.close()
    await link.lost


async def test_a_process_that_is_always_busy_still_gives_up(link: Link, resp_server: Any) -> None:
    """A store that hangs while every turn of the event loop takes long: callers must not wait for a quiet moment."""
    resp_server.answer = lambda words: None
    future = link.ask(question(1))
    turns = 0
    while not future.done() and turns < 200:
        time.sleep(0.003)  # noqa: ASYNC251 - the fault: an event loop that is never idle
        await asyncio.sleep(0)
        turns += 1
    assert turns < 200
    with pytest.raises(StoreError, match="no answer"):
        future.result()
