"""A blocking connection: whatever happens between a question and its answer, no other question gets that answer."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator

import hiredis
import pytest

from limen.errors import StoreError
from limen.stores.valkey.sync_channel import Channel
from limen.stores.valkey.sync_pool import Pool

PATIENCE_S = 20.0
SHORT_S = 0.02


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    """A channel and the server's end of it."""
    ours, theirs = socket.socketpair()
    with theirs:
        channel = Channel(ours, PATIENCE_S)
        yield channel, theirs
        channel.close()


Ends = tuple[Channel, socket.socket]


def test_an_answer_may_come_in_pieces(ends: Ends) -> None:
    channel, server = ends
    threading.Thread(target=lambda: [server.sendall(bytes([byte])) for byte in b"*2\r\n:1\r\n:23\r\n"]).start()
    assert channel.ask(b"question", PATIENCE_S) == [1, 23]
    assert channel.owed == 0


def test_an_error_is_an_answer(ends: Ends) -> None:
    channel, server = ends
    server.sendall(b"-NOSCRIPT No matching script.\r\n")
    reply = channel.ask(b"question", PATIENCE_S)
    assert isinstance(reply, hiredis.ReplyError)
    assert str(reply) == "NOSCRIPT No matching script."
    assert channel.owed == 0


@pytest.mark.parametrize("part", [b"", b":1", b"*2\r\n:1\r\n"])
def test_a_late_answer_stays_owed(ends: Ends, part: bytes) -> None:
    channel, server = ends
    server.sendall(part)
    with pytest.raises(StoreError, match="no answer from the store within 20 ms") as caught:
        channel.ask(b"question", SHORT_S)
    assert (caught.value.kind, channel.owed) == ("timeout", 1)


def test_a_patient_question_after_a_hasty_one_is_patient(ends: Ends) -> None:
    channel, server = ends
    server.sendall(b":1\r\n")
    assert channel.ask(b"hasty", SHORT_S) == 1
    threading.Timer(5 * SHORT_S, server.sendall, [b":2\r\n"]).start()
    assert channel.ask(b"patient", PATIENCE_S) == 2


@pytest.mark.parametrize("said", [b"", b":1", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_server_that_hangs_up_or_talks_nonsense_is_down(ends: Ends, said: bytes) -> None:
    channel, server = ends
    server.sendall(said)
    server.shutdown(socket.SHUT_WR)
    with pytest.raises(StoreError) as caught:
        channel.ask(b"question", PATIENCE_S)
    assert (caught.value.kind, channel.owed) == ("down", 1)


def test_a_question_that_cannot_be_sent_is_down(ends: Ends) -> None:
    channel, server = ends
    server.close()
    with pytest.raises(StoreError) as caught:
        channel.ask(b"question", PATIENCE_S)
    assert (caught.value.kind, channel.owed) == ("down", 1)


def test_two_answers_in_one_piece_are_read_one_by_one(ends: Ends) -> None:
    channel, server = ends
    server.sendall(b"+OK\r\n:7\r\n")
    channel.send(b"two questions", PATIENCE_S, replies=2)
    assert (channel.receive(), channel.owed) == (b"OK", 1)
    assert (channel.receive(), channel.owed) == (7, 0)


def test_ctrl_c_in_the_middle_leaves_the_answer_owed(ends: Ends, ctrl_c: Callable[[float], None]) -> None:
    channel, _ = ends
    ctrl_c(SHORT_S)
    with pytest.raises(KeyboardInterrupt):
        channel.ask(b"question", PATIENCE_S)
    assert channel.owed == 1


def test_a_signal_that_is_handled_disturbs_nothing(ends: Ends) -> None:
    channel, server = ends
    before = signal.signal(signal.SIGUSR1, lambda *_: server.sendall(b":1\r\n"))
    try:
        threading.Timer(SHORT_S, os.kill, [os.getpid(), signal.SIGUSR1]).start()
        assert channel.ask(b"question", PATIENCE_S) == 1
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_channel_that_owes_an_answer_never_comes_back(ends: Ends) -> None:
    channel, server = ends
    pool = Pool(2)
    pool.add(channel)
    with pytest.raises(StoreError):
        channel.ask(b"question", SHORT_S)
    server.sendall(b":666\r\n")
    pool.give_back(channel)
    assert pool.borrow(channel.used_at) is None
    assert len(pool) == 0


@pytest.mark.parametrize("said", [b"", b":666\r\n"])
def test_an_idle_channel_that_was_hung_up_on_or_talked_to_is_not_used(ends: Ends, said: bytes) -> None:
    channel, server = ends
    pool = Pool(2)
    pool.add(channel)
    pool.give_back(channel)
    assert pool.borrow(channel.used_at) is channel
    pool.give_back(channel)
    server.sendall(said)
    server.shutdown(socket.SHUT_WR)
    pool.suspect()
    assert pool.borrow(channel.used_at) is None


def test_who_waits_gets_the_next_channel_in_turn(ends: Ends) -> None:
    channel, _ = ends
    pool = Pool(1)
    pool.add(channel)
    order: list[int] = []

    def wait(number: int) -> None:
        found = pool.wait(time.monotonic() + PATIENCE_S, lambda: False)
        assert found is channel
        order.append(number)
        pool.give_back(found)

    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=wait, args=[number]))
        threads[-1].start()
        while pool.waiting <= number:
            threads[-1].join(0.001)  # the pace of looking
    pool.give_back(channel)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert order == list(range(5))
    assert pool.waiting == 0


def test_waiting_ends_at_the_deadline_and_when_it_is_in_vain() -> None:
    pool, useless = Pool(1), threading.Event()
    assert pool.wait(0.0, lambda: False) is None
    waiting = threading.Thread(target=pool.wait, args=[time.monotonic() + PATIENCE_S, useless.is_set])
    waiting.start()
    while not pool.waiting:
        waiting.join(0.001)  # the pace of looking
    useless.set()
    pool.wake()
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
