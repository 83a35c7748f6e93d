"""The store for code that blocks, on real servers: exact among threads and processes, with few connections."""

from __future__ import annotations

import multiprocessing
from typing import Any

import pytest

from limen.errors import StoreError
from tests.stores.valkey.sync_lab import TOKEN, admin, clients, in_threads, op, started, store, take


def test_every_operation_on_both_servers(url: str) -> None:
    with started(url) as opened:
        assert opened.state == "up"
        assert [take(opened) for _ in range(3)] == [1000, 999, 998]
        assert opened.grant(op(cost=0), 5, 60_000_000) == 1002 * TOKEN
        assert opened.take([op("a"), op("b"), op("acme")]) == [1000 * TOKEN, 1000 * TOKEN, 1002 * TOKEN]
        opened.reset("acme", "r")
        assert take(opened) >= 1000
    assert opened.state == "down"
    assert clients(url) == 0


def test_threads_and_processes_take_exactly_what_is_there(url: str) -> None:
    """16 threads in each of 2 processes, one key: each token goes to one of them."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=_take_in_threads, args=[url, results]) for _ in range(2)]
    for process in processes:
        process.start()
    found = [level for _ in processes for level in results.get(timeout=60)]
    for process in processes:
        process.join(20)
    taken = [level for level in found if level]
    assert sorted(taken) == list(range(1, 1001))
    assert len(found) == 2 * 16 * 50


def _take_in_threads(url: str, results: Any) -> None:
    found: list[int] = []
    with started(url) as opened:
        in_threads(16, lambda _: found.extend(take(opened) for _ in range(50)))
    results.put(found)


def test_threads_share_a_bounded_number_of_connections(valkey_url: str) -> None:
    with started(valkey_url, max_connections=4) as opened:
        most = []

        def work(number: int) -> None:
            for turn in range(50):
                take(opened, f"client-{number}")
                if number == 0 and turn % 10 == 0:
                    most.append(clients(valkey_url))

        in_threads(24, work)
        assert max(most) <= 4
    assert clients(valkey_url) == 0


def test_one_thread_needs_one_connection(valkey_url: str) -> None:
    with started(valkey_url) as opened:
        for _ in range(100):
            take(opened)
        assert clients(valkey_url) == 1


def test_every_thread_is_answered_about_its_own_bucket(valkey_url: str) -> None:
    with started(valkey_url) as opened:

        def work(number: int) -> None:
            assert take(opened, f"client-{number}", 10 * number) == 1000
            for _ in range(100):
                assert take(opened, f"client-{number}", 0) == 1000 - 10 * number

        in_threads(16, work)


def test_without_start_the_first_question_connects(valkey_url: str) -> None:
    opened = store(valkey_url)
    assert take(opened) == 1000
    opened.close()


def test_many_questions_in_one_round_trip(url: str) -> None:
    """Each is decided for itself and in order; more than go at once, and with a script that was lost meanwhile."""
    questions = [[op(f"client-{number % 700}", 600)] for number in range(1400)]
    with started(url) as opened, admin(url) as server:
        server.script_flush()
        found = opened.take_each(questions)
        assert found == [[1000 * TOKEN]] * 700 + [[400 * TOKEN]] * 700
        assert opened.take_each([]) == []
        assert opened.take_each([[op("client-0"), op("new", 7)], [op("new")]]) == [
            [400 * TOKEN, 1000 * TOKEN],
            [993 * TOKEN],
        ]
        assert clients(url) == 1


def test_a_lost_script_is_sent_once_and_no_question_fails(url: str) -> None:
    with started(url) as opened, admin(url) as server:
        in_threads(8, lambda number: take(opened, f"client-{number}"))
        server.config_resetstat()
        for _ in range(5):
            server.script_flush()
            in_threads(8, lambda number: [take(opened, f"client-{number}", 0) for _ in range(3)])
        loads = server.info("commandstats")["cmdstat_script|load"]["calls"]
        extra = opened.node.connections  # each new connection brings the script too
        assert 5 <= loads <= 5 + extra
        assert take(opened, "client-0", 0) == 999


def test_a_closed_store_can_be_started_again(valkey_url: str) -> None:
    opened = store(valkey_url)
    for left in (1000, 999):
        opened.start()
        assert take(opened) == left
        opened.close()
        with pytest.raises(StoreError, match="not connected"):
            take(opened)
