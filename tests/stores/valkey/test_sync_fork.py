"""Children of a process that uses a store: none ever touches a connection, a lock or a thread of its parent."""

from __future__ import annotations

import os
import threading

import redis

from limen.stores.valkey.sync import ValkeyStore
from tests.stores.valkey.sync_lab import admin, started, take


def test_a_child_never_uses_the_connection_of_its_parent(valkey_url: str) -> None:
    with started(valkey_url) as opened:
        take(opened)
        with admin(valkey_url) as server:
            parents = _ids(server)
            child = os.fork()
            if not child:
                _be_a_child(opened)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert take(opened) == 998
            assert _ids(server) == parents


def _ids(server: redis.Redis) -> set[str]:
    return {each["id"] for each in server.client_list() if each["name"] == "limen"}


def _be_a_child(opened: ValkeyStore) -> None:
    """Ends the process; its status tells what went wrong."""
    status = 1
    try:
        assert take(opened) == 999
        opened.close()
        status = 0
    finally:
        os._exit(status)


def test_children_of_a_busy_parent_and_the_parent_count_together(valkey_url: str) -> None:
    """Forks while 8 threads are in the middle of questions: locks and connections of the parent do not matter."""
    with started(valkey_url) as opened:
        stop = threading.Event()
        taken: list[int] = []

        def busy() -> None:
            while not stop.is_set():
                taken.append(take(opened, "busy", 0))

        threads = [threading.Thread(target=busy) for _ in range(8)]
        for thread in threads:
            thread.start()
        children = [_fork_and_take(opened, 10) for _ in range(4)]
        statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        stop.set()
        for thread in threads:
            thread.join(20)
        assert statuses == [0] * 4
        assert set(taken) == {1000}
        assert take(opened) == 960


def _fork_and_take(opened: ValkeyStore, times: int) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        for _ in range(times):
            take(opened)
        status = 0
    finally:
        os._exit(status)
