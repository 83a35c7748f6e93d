"""The limiter for code that blocks, behind sentinels: it follows the primary."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import redis

from limen.engine.limiter import Limiter
from limen.rules.model import Rule
from tests.topologies.test_sentinel import SECRET, Trio

Until = Callable[[Callable[[], object]], Awaitable[None]]
RULES = [Rule("r", limit="100/day")]


@pytest.fixture
def trio(family: str, tmp_path: Path) -> Iterator[Trio]:
    trio = Trio(family, tmp_path)
    yield trio
    trio.stop()


async def test_a_planned_failover_is_noticed_while_the_old_primary_still_answers(trio: Trio, until: Until) -> None:
    """By plan first: the old primary goes on to answer for a while, and what it counts then is lost."""
    with Limiter(trio.url, RULES, deadline_ms=2000) as limiter:
        assert limiter.check("acme", "r").remaining == 99
        before, after = trio.primary, trio.replica
        with trio.sentinels[0].client(password="watch+er") as client:
            client.execute_command("SENTINEL FAILOVER", "main")
        await until(lambda: not limiter.check("acme", "r").degraded and _asked(after.port) and not _asked(before.port))


async def test_a_primary_that_crashes_is_followed_by_its_replica(trio: Trio, until: Until) -> None:
    with Limiter(trio.url, RULES, deadline_ms=2000) as limiter:
        assert limiter.check("acme", "r").remaining == 99
        before, after = trio.primary, trio.replica
        before.kill()
        assert limiter.check("acme", "r").allowed
        await until(lambda: not limiter.check("acme", "r").degraded)
        assert _asked(after.port)


def _asked(port: int) -> bool:
    """Whether a server is the one that decides."""
    with redis.Redis(port=port, password=SECRET) as client:
        return any(each["name"] == "limen" for each in client.client_list())


def test_what_is_wrong_with_sentinels_is_said(trio: Trio, free_port: int, caplog: pytest.LogCaptureFixture) -> None:
    for url, message in (
        (trio.url.replace("/main?", "/other?"), "knows no primary 'other'"),
        (trio.url.replace("watch+er", "wrong"), "refused the login"),
        (f"valkey+sentinel://127.0.0.1:{free_port}/main", "cannot be reached"),
    ):
        caplog.clear()
        with Limiter(url, RULES) as limiter:
            assert limiter.check("acme", "r").degraded
        assert re.search(message, caplog.text)
