"""The files in `deploy/store`: real servers run on them, and do what they say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import pytest
import redis

from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule
from limen.stores.valkey.doctor.examine import examine
from limen.stores.valkey.url import parse_target
from tests.redis7 import redis_server

Until = Callable[[Callable[[], object]], Awaitable[None]]
SHIPPED = Path(__file__).resolve().parents[2] / "deploy" / "store"
PASSWORD = "correct horse battery staple"
RULE = Rule("r", limit="100/minute", on_failure="closed")


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """The file with the users, with hashes of passwords in it."""
    text, hashed = (SHIPPED / "users.acl").read_text(), sha256(PASSWORD.encode()).hexdigest()
    for user in ("ADMIN", "LIMEN"):
        text = text.replace(f"SHA256-OF-THE-PASSWORD-OF-{user}", hashed)
    file = tmp_path / "users.acl"
    file.write_text(text)
    return file


@pytest.fixture
def started(tmp_path: Path, users: Path) -> Iterator[Callable[..., int]]:
    """Starts a server on files that ship; its port."""
    with ExitStack() as servers:

        def start(*files: str, **options: str) -> int:
            folder = tmp_path / f"server{len(list(tmp_path.iterdir()))}"
            words = [word for file in files for word in ("--include", str(SHIPPED / file))]
            words += [word for name, value in options.items() for word in (f"--{name}", value)]
            return servers.enter_context(redis_server(folder, *words, "--aclfile", str(users)))

        yield start


def url_of(port: int) -> str:
    return f"valkey://limen:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}"


def admin_of(port: int) -> redis.Redis:
    return redis.Redis(port=port, username="admin", password=PASSWORD)


async def complaints(port: int) -> set[str]:
    """What the doctor has to say, but for the version, which is not in these files."""
    found = await examine(parse_target(url_of(port)), 1000)
    return {each.check for each in found if each.status != "ok"} - {"version"}


async def test_one_server_on_the_files_that_ship_is_fit(started: Callable[..., int]) -> None:
    port = started("valkey.conf")
    assert await complaints(port) == set()
    with admin_of(port) as admin:
        assert admin.config_get("save", "maxmemory-policy") == {"save": "", "maxmemory-policy": "volatile-ttl"}
    with pytest.raises(redis.exceptions.AuthenticationError), redis.Redis(port=port) as nobody:
        nobody.ping()


async def test_a_primary_stops_when_its_replica_does(started: Callable[..., int], until: Until) -> None:
    port = started("valkey.conf", "replicated.conf", **{"repl-diskless-sync-delay": "0"})
    follows = {"replicaof": f"127.0.0.1 {port}", "masteruser": "admin", "masterauth": PASSWORD}
    replica = started("valkey.conf", "replicated.conf", **follows)
    with admin_of(port) as admin, admin_of(replica) as other:
        await until(lambda: admin.info("replication").get("min_slaves_good_slaves") == 1)
        assert await complaints(port) == set()
        async with AsyncLimiter(url_of(port), [RULE], deadline_ms=1000) as limiter:
            assert (await limiter.check("acme", "r")).source == "store"
            other.replicaof("no", "one")
            await until(lambda: admin.info("replication").get("min_slaves_good_slaves") == 0)
            refused = await limiter.check("acme", "r")
            assert (refused.status, refused.reason) == (503, "store_unavailable")
        assert {"replicas", "decision"} <= await complaints(port)


def test_the_users_that_ship_have_no_password_that_anybody_knows(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="password hash"),
        redis_server(tmp_path, "--aclfile", str(SHIPPED / "users.acl")),
    ):
        pass
