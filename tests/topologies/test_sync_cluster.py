"""The limiter for code that blocks, over a cluster: which node decides is its business alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from limen.core.decision import Decision
from limen.engine.limiter import Limiter
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.stores.valkey.topology import slot_of
from tests.topologies.servers import Cluster, Server, bucket_count

Until = Callable[[Callable[[], object]], Awaitable[None]]
PATIENT_MS = 20_000
BOTH = [
    Rule("client", match={"path": "/**"}, key_by=["client"], limit="10/day"),
    Rule("ip", match={"path": "/**"}, key_by=["ip"], limit="3/day"),
]
TOGETHER = [
    Rule(name, match={"path": "/**"}, key_by=[name], limit=limit, colocate="login")
    for name, limit in (("client", "9/day"), ("ip", "8/day"))
]


@contextlib.contextmanager
def opened(url: str, rules: Any, **options: Any) -> Iterator[Limiter]:
    with Limiter(url, rules, **{"deadline_ms": PATIENT_MS, **options}) as limiter:
        yield limiter


def slot(limiter: Limiter, client: str = "acme", colocate: str = "") -> int:
    store: Any = limiter.store
    return slot_of(store._names.key("client=" + client, colocate))


def elsewhere(cluster: Cluster, owner: Server) -> Server:
    return next(server for server in cluster.primaries if server is not owner)


def left(limiter: Limiter, client: str, rule: str) -> int | None:
    limiter._denied.clear()  # what was seen while others had taken what they then gave back
    return limiter.peek(client, rule).remaining


def test_every_client_has_its_bucket_on_one_of_the_nodes(cluster: Cluster) -> None:
    with opened(cluster.url, [Rule("r", limit="3/day")]) as limiter:
        assert limiter.store_state == "up"
        for client in range(100):
            found = [limiter.check(f"c{client}", "r") for _ in range(4)]
            assert [each.remaining for each in found] == [2, 1, 0, 0]
            assert {each.source for each in found} <= {"store", "deny_cache"}
        questions = [limiter._planned(f"c{client}", "r", 1).ops for client in range(100)]
        found_each = limiter.store.take_each(questions)
        assert not any(questions[0][0].limit.allows(seen, 1) for (seen,) in found_each)
    assert all(bucket_count(server) for server in cluster.primaries)


def test_RO_02_rules_over_several_slots_are_charged_together_or_not_at_all(cluster: Cluster) -> None:
    with opened(cluster.url, BOTH) as limiter:
        for at in range(30):
            found = [limiter.check_request(Request(client=f"c{at}", ip=f"192.0.2.{at}")) for _ in range(5)]
            assert [each.allowed for each in found] == [True, True, True, False, False]
            assert not any(each.degraded for each in found)
        for at in range(30):
            assert left(limiter, f"c{at}", "client") == 7


def test_threads_over_several_slots_admit_exactly_what_is_there(cluster: Cluster) -> None:
    rules = [BOTH[0], Rule("ip", match={"path": "/**"}, key_by=["ip"], limit="8/day")]
    found: list[Decision] = []
    with opened(cluster.url, rules) as limiter:

        def ask() -> None:
            found.extend(limiter.check_request(Request(client="acme", ip="192.0.2.1")) for _ in range(10))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(each.degraded for each in found)
        assert sum(each.allowed for each in found) == 8
        assert left(limiter, "acme", "client") == 2


def test_colocated_rules_are_one_step_in_one_slot(cluster: Cluster) -> None:
    with opened(cluster.url, TOGETHER) as limiter:
        found = [limiter.check_request(Request(client="acme", ip="192.0.2.1")) for _ in range(9)]
        assert [each.allowed for each in found] == [True] * 8 + [False]
    assert sorted(bucket_count(server) for server in cluster.primaries) == [0, 0, 2]


def test_lost_scripts_fail_no_decision(cluster: Cluster) -> None:
    with opened(cluster.url, [Rule("r", limit="10/day")]) as limiter:
        for _ in range(3):
            for server in cluster.primaries:
                server.ask("SCRIPT", "FLUSH")
            assert {limiter.check(f"c{at}", "r").source for at in range(50)} == {"store"}
            for server in cluster.primaries:
                server.ask("SCRIPT", "FLUSH")
            assert not limiter.check_request(Request(client="c7")).degraded
        assert limiter.peek("c7", "r").remaining == 4


async def test_RO_05_a_slot_moves_under_traffic_and_nobody_notices(cluster: Cluster, until: Until) -> None:
    found: list[Decision] = []
    done = threading.Event()
    with opened(cluster.url, [Rule("r", limit="100000/day")]) as limiter:

        def traffic() -> None:
            while not done.is_set():
                found.append(limiter.check("acme", "r"))

        thread = threading.Thread(target=traffic)
        thread.start()
        try:
            for _ in range(3):
                before = len(found)
                cluster.move(slot(limiter), elsewhere(cluster, cluster.owner(slot(limiter))))
                await until(lambda seen=before: len(found) > seen + 5)
        finally:
            done.set()
            thread.join(20)
    assert {each.source for each in found} == {"store"}
    assert [each.remaining for each in found] == [99_999 - at for at in range(len(found))]


def test_a_slot_that_is_left_half_moved_decides(cluster: Cluster) -> None:
    with opened(cluster.url, [Rule("r", limit="10/day")]) as limiter:
        number = slot(limiter)
        assert limiter.check("acme", "r").remaining == 9
        target = elsewhere(cluster, cluster.owner(number))
        source = cluster.half_move(number, target)
        try:
            assert limiter.check("acme", "r").remaining == 8
            cluster.move_keys(number, source, target)
            found = [limiter.check("acme", "r") for _ in range(3)]
        finally:
            cluster.end_move(number, target)
        assert [each.remaining for each in found] == [7, 6, 5]
        assert {each.source for each in found} == {"store"}


@pytest.mark.parametrize("rules", [BOTH, TOGETHER], ids=["several slots", "colocated"])
def test_several_rules_are_decided_also_while_a_slot_moves(cluster: Cluster, rules: list[Rule]) -> None:
    request, limit = Request(client="acme", ip="192.0.2.1"), rules[1].policy
    assert limit is not None
    with opened(cluster.url, rules) as limiter:
        found = [limiter.check_request(request)]
        number = slot(limiter, colocate=rules[0].colocate)
        target = elsewhere(cluster, cluster.owner(number))
        source = cluster.half_move(number, target)
        try:
            found.append(limiter.check_request(request))
            cluster.move_keys(number, source, target, count=1)
            found += [limiter.check_request(request) for _ in range(limit.quota)]
        finally:
            cluster.end_move(number, target)
        assert not any(each.degraded for each in found)
        assert sum(each.allowed for each in found) == limit.quota
        assert limiter.check_request(request._replace(ip="192.0.2.2")).source == "store"


async def test_a_node_that_crashes_takes_only_its_own_clients_along(cluster: Cluster, until: Until) -> None:
    with opened(cluster.url, [Rule("r", limit="1000000/day")], deadline_ms=2000) as limiter:
        lost = cluster.primaries[2]
        clients = [f"c{at}" for at in range(60)]
        owners = {client: cluster.owner(slot(limiter, client)) for client in clients}
        assert not any(limiter.check(client, "r").degraded for client in clients)
        lost.kill()
        try:
            for client in clients:
                decision = limiter.check(client, "r")
                assert decision.allowed
                assert decision.degraded is (owners[client] is lost)
            assert limiter.store_state == "down"
        finally:
            lost.start()
        await until(lambda: not any(limiter.check(client, "r").degraded for client in clients))
        assert limiter.store_state == "up"


def test_a_child_process_finds_its_way_alone(cluster: Cluster) -> None:
    import os

    with opened(cluster.url, [Rule("r", limit="10/day")]) as limiter:
        assert limiter.check("acme", "r").remaining == 9
        child = os.fork()
        if not child:
            status = 1
            try:
                assert limiter.check("acme", "r").remaining == 8
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert limiter.check("acme", "r").remaining == 7


def test_one_address_for_a_cluster_says_how_to_write_it(cluster: Cluster) -> None:
    errors: list[str] = []
    with opened(f"valkey://{cluster.primaries[0].address}", [Rule("r", limit="9/day")]) as limiter:
        without = limiter._without_store
        limiter._without_store = lambda plan, error, *rest, **more: (  # type: ignore[method-assign]
            errors.append(str(error)) or without(plan, error, *rest, **more)
        )
        found = [limiter.check(f"c{at}", "r") for at in range(30)]
    assert {each.source for each in found} == {"store", "local_share"}
    assert all("begin the store URL with valkey+cluster://" in each for each in errors)


def test_a_candidate_is_charged_under_both_secrets_when_its_limit_refuses_under_one(cluster: Cluster) -> None:
    """What was taken under the other goes back, but for what the candidate takes."""
    rules = [Rule("r", limit="2/day", candidate="5/day")]

    def ask(limiter: Limiter, client: str) -> tuple[bool, bool]:
        [found] = limiter.check(client, "r").candidates
        return found.live, found.candidate

    with (
        opened(cluster.url, rules, secret="new") as new,
        opened(cluster.url, rules, secret="new", previous_secret="old") as both,
        opened(cluster.url, rules, secret="old") as old,
    ):
        for client in ("acme", "globex", "initech"):
            assert [ask(new, client) for _ in range(2)] == [(True, True)] * 2
            assert [ask(both, client) for _ in range(2)] == [(False, True)] * 2
            assert [ask(old, client) for _ in range(4)] == [(True, True)] * 2 + [(False, True), (False, False)]
