"""A server that answers, but not what was asked for: the failure policy of the rule decides, and nothing raises."""

from __future__ import annotations

from typing import Any

import pytest

from limen.core.decision import Decision
from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule
from limen.rules.request import Request

REPLIES = {
    "nil": b"$-1\r\n",
    "nil list": b"*-1\r\n",
    "text": b"+OK\r\n",
    "bytes": b"$3\r\nabc\r\n",
    "number as text": b"$1\r\n5\r\n",
    "empty list": b"*0\r\n",
    "wrong length": b"*3\r\n:1\r\n:1\r\n:1\r\n",
    "list of texts": b"*2\r\n+a\r\n+b\r\n",
    "list with an error": b"*2\r\n:1\r\n-ERR inside\r\n",
    "nested list": b"*2\r\n*1\r\n:1\r\n:1\r\n",
    "double": b",1.5\r\n",
    "boolean": b"#t\r\n",
    "map": b"%1\r\n+a\r\n:1\r\n",
    "negative": b":-1\r\n",
    "error": b"-ERR something odd\r\n",
    "OOM": b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "READONLY": b"-READONLY You can't write against a read only replica. script: abc, on @user_script:1.\r\n",
    "CLUSTERDOWN": b"-CLUSTERDOWN The cluster is down\r\n",
    "LOADING": b"-LOADING Valkey is loading the dataset in memory\r\n",
    "BUSY": b"-BUSY Valkey is busy running a script.\r\n",
    "MASTERDOWN": b"-MASTERDOWN Link with MASTER is down\r\n",
    "TRYAGAIN": b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
    "MOVED": b"-MOVED 3999 127.0.0.1:6381\r\n",
    "NOPERM": b"-NOPERM this user has no permissions to run the 'evalsha' command\r\n",
    "NOSCRIPT for ever": b"-NOSCRIPT No matching script.\r\n",
}


KINDS = {
    "OOM": "full",
    "READONLY": "read_only",
    "CLUSTERDOWN": "cluster_down",
    "LOADING": "loading",
    "BUSY": "busy",
    "MASTERDOWN": "master_down",
    "TRYAGAIN": "moved",
    "MOVED": "moved",
    "NOPERM": "no_permission",
    "NOSCRIPT for ever": "no_script",
}
"""What a metric calls them; all others are `refused`."""


class Kinds:
    def __init__(self) -> None:
        self.errors: list[str] = []

    def on_decision(self, decision: Decision, duration_us: int) -> None:
        """Not looked at."""

    def on_store_error(self, kind: str, shard: str) -> None:
        self.errors.append(kind)


def rules(on_failure: Any) -> list[Rule]:
    return [Rule(name, match={"path": "/**"}, limit=f"50/{name}", on_failure=on_failure) for name in ("minute", "hour")]


@pytest.mark.parametrize("on_failure", ["open", "closed"])
@pytest.mark.parametrize("name", REPLIES)
async def test_FM_02_every_shape_of_failure_follows_the_policy(resp_server: Any, name: str, on_failure: str) -> None:
    resp_server.answer = lambda words: REPLIES[name]
    kinds = Kinds()
    async with AsyncLimiter(resp_server.url, rules(on_failure), deadline_ms=2000, observer=kinds) as limiter:
        found = [await limiter.check_request(Request(client="acme")) for _ in range(3)]
        found.append(await limiter.check("acme", "minute"))
    assert {(each.allowed, each.degraded, each.status) for each in found} == {
        (True, True, 200) if on_failure == "open" else (False, True, 503)
    }
    assert set(kinds.errors) <= {KINDS.get(name, "refused"), "down"}  # a replica is left, and looked for anew
    assert kinds.errors[0] == KINDS.get(name, "refused")
    assert len(kinds.errors) == 4


async def test_FM_02_an_error_is_not_asked_again(resp_server: Any) -> None:
    resp_server.answer = lambda words: b"-NOPERM no permission\r\n"
    async with AsyncLimiter(resp_server.url, rules("open"), deadline_ms=2000) as limiter:
        for _ in range(10):
            await limiter.check("acme", "minute")
    assert resp_server.questions == 10
