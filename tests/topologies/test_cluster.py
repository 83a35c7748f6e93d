"""A limiter over a cluster: which node decides is the limiter's business alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from limen.core.decision import Decision
from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule
from limen.rules.request import Request
from limen.stores.valkey.doctor.needs import acl_rules
from limen.stores.valkey.endpoint import Address
from limen.stores.valkey.topology import slot_of
from tests.topologies.servers import Cluster, Server, bucket_count

Opened = Callable[..., Awaitable[AsyncLimiter]]
Until = Callable[[Callable[[], object]], Awaitable[None]]
ODD_CLIENTS = ["{", "}", "{}", "a{b}c", "{x}{y}", "", "é", "\ud800", "a b", "\r\n"]


def slot(limiter: AsyncLimiter, client: str = "acme") -> int:
    return slot_of(limiter._store._commands.names.key("client=" + client))


def elsewhere(cluster: Cluster, owner: Server) -> Server:
    return next(server for server in cluster.primaries if server is not owner)


async def drained(limiter: AsyncLimiter, client: str, count: int) -> list[Decision]:
    return [await limiter.check(client, "r") for _ in range(count)]


async def test_every_client_has_its_bucket_on_one_of_the_nodes(cluster: Cluster, opened: Opened) -> None:
    limiter = await opened(cluster.url, [Rule("r", limit="3/day")])
    for client in range(200):
        found = await drained(limiter, f"c{client}", 4)
        assert [each.remaining for each in found] == [2, 1, 0, 0]
        assert {each.source for each in found} <= {"store", "deny_cache"}
    assert all(bucket_count(server) for server in cluster.primaries)


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_RO_02_no_client_and_no_number_of_rules_crosses_a_slot(
    cluster: Cluster, opened: Opened, count: int
) -> None:
    rules = [Rule(f"r{at}", match={"path": "/**"}, limit=f"{at + 2}/day") for at in range(count)]
    limiter = await opened(cluster.url, rules)
    clients = [*ODD_CLIENTS, *(f"client-{at}" for at in range(200))]
    for client in clients:
        found = [await limiter.check_request(Request(client=client)) for _ in range(3)]
        assert [each.allowed for each in found] == [True, True, False]
        assert not any(each.degraded for each in found)


async def test_RO_02_rules_that_key_on_different_things_are_charged_together_or_not_at_all(
    cluster: Cluster, opened: Opened, until: Until
) -> None:
    rules = [
        Rule("client", match={"path": "/**"}, key_by=["client"], limit="5/day"),
        Rule("ip", match={"path": "/**"}, key_by=["ip"], limit="3/day"),
        Rule("all", match={"path": "/**"}, key_by=[], limit="1000/day"),
    ]
    limiter = await opened(cluster.url, rules)
    allowed = 0
    for client in range(20):
        for _ in range(4):
            ip = f"192.0.2.{client}"
            allowed += (await limiter.check_request(Request(client=f"c{client}", ip=ip))).allowed
    assert allowed == 60
    givings = limiter._store.givings
    await until(lambda: not givings._tasks)
    assert givings.lost == 0
    for client in range(20):
        assert (await limiter.peek(f"c{client}", "client")).remaining == 2
    whole = await limiter.check_request(Request(client="new", ip="198.51.100.1"))
    assert whole.allowed
    assert sum(bucket_count(server) for server in cluster.primaries) >= 41


async def test_parallel_requests_over_several_slots_admit_at_most_the_limit_and_leave_the_rest(
    cluster: Cluster, opened: Opened, until: Until
) -> None:
    rules = [
        Rule("client", match={"path": "/**"}, key_by=["client"], limit="100/day"),
        Rule("ip", match={"path": "/**"}, key_by=["ip"], limit="40/day"),
    ]
    one, two = await opened(cluster.url, rules), await opened(cluster.url, rules)
    requests = [Request(client="acme", ip="192.0.2.1")] * 200
    found = await asyncio.gather(*((one, two)[at % 2].check_request(each) for at, each in enumerate(requests)))
    allowed = sum(each.allowed for each in found)
    assert not any(each.degraded for each in found)
    assert allowed == 40
    await until(lambda: not one._store.givings._tasks and not two._store.givings._tasks)
    one._denied.clear()  # what was seen while others had taken what they then gave back
    assert (await one.peek("acme", "client")).remaining == 60


async def test_colocated_rules_are_one_step_in_one_slot(cluster: Cluster, opened: Opened) -> None:
    rules = [
        Rule("client", match={"path": "/**"}, key_by=["client"], limit="5/day", colocate="login"),
        Rule("ip", match={"path": "/**"}, key_by=["ip"], limit="3/day", colocate="login"),
    ]
    limiter = await opened(cluster.url, rules)
    found = [await limiter.check_request(Request(client="acme", ip="192.0.2.1")) for _ in range(4)]
    assert [each.allowed for each in found] == [True, True, True, False]
    assert sorted(bucket_count(server) for server in cluster.primaries) == [0, 0, 2]
    assert limiter._store.givings.given == 0


async def test_a_cancelled_caller_leaves_nothing_taken_in_vain(cluster: Cluster, opened: Opened, until: Until) -> None:
    """The first part passes, the second denies, and whoever asked is gone before the answers are there."""
    rules = [
        Rule("client", match={"path": "/**"}, key_by=["client"], limit="100/day"),
        Rule("ip", match={"path": "/**"}, key_by=["ip"], limit="1/day"),
    ]
    limiter = await opened(cluster.url, rules)
    assert (await limiter.check_request(Request(client="acme", ip="192.0.2.1"))).allowed
    limiter._denied.clear()
    for turns in range(1, 8):
        task = asyncio.create_task(limiter.check_request(Request(client="acme", ip="192.0.2.1")))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        limiter._denied.clear()
    await until(lambda: not limiter._store.givings._tasks)
    assert (await limiter.peek("acme", "client")).remaining == 99


async def test_lost_scripts_fail_no_decision_and_cost_one_load_for_each_node_and_flush(
    cluster: Cluster, opened: Opened
) -> None:
    limiter = await opened(cluster.url, [Rule("r", limit="10/day")])
    for server in cluster.primaries:
        server.ask("CONFIG", "RESETSTAT")
    for _ in range(3):
        for server in cluster.primaries:
            server.ask("SCRIPT", "FLUSH")
        found = await asyncio.gather(*(limiter.check(f"c{at}", "r") for at in range(150)))
        assert {each.source for each in found} == {"store"}
    assert (await limiter.peek("c7", "r")).remaining == 7
    for server in cluster.primaries:
        assert server.ask("INFO", "commandstats")["cmdstat_script|load"]["calls"] <= 3


async def test_RO_05_a_slot_moves_under_traffic_and_nobody_notices(
    cluster: Cluster, opened: Opened, until: Until
) -> None:
    limiter = await opened(cluster.url, [Rule("r", capacity=1_000_000, refill_per_sec=0)])
    number = slot(limiter)
    found: list[Decision] = []
    done = asyncio.Event()

    async def traffic() -> None:
        while not done.is_set():
            found.append(await limiter.check("acme", "r"))

    task = asyncio.create_task(traffic())
    for _ in range(3):
        before = len(found)
        owner = cluster.owner(number)
        await asyncio.to_thread(cluster.move, number, elsewhere(cluster, owner))
        await until(lambda seen=before: len(found) > seen + 5)
    done.set()
    await task
    assert {each.source for each in found} == {"store"}
    assert [each.remaining for each in found] == [999_999 - at for at in range(len(found))]


async def test_a_crowd_that_is_sent_elsewhere_looks_at_the_map_once(
    cluster: Cluster, opened: Opened, until: Until
) -> None:
    limiter = await opened(cluster.url, [Rule("r", limit="1000/day")])
    number = slot(limiter)
    await asyncio.to_thread(cluster.move, number, elsewhere(cluster, cluster.owner(number)))
    looks = limiter._store.cluster.looks
    found = await asyncio.gather(*(limiter.check("acme", "r") for _ in range(300)))
    assert {each.source for each in found} == {"store"}
    await until(lambda: limiter._store.cluster.looks > looks)
    assert limiter._store.cluster.looks <= looks + 2
    assert all(node.connections == 1 for node in limiter._store.cluster.nodes.values())


async def test_a_slot_that_is_left_half_moved_decides(cluster: Cluster, opened: Opened) -> None:
    """Its old node sends those who have no bucket there to the new one, which answers them alone (ASK)."""
    limiter = await opened(cluster.url, [Rule("r", limit="10/day")])
    number = slot(limiter)
    assert (await limiter.check("acme", "r")).remaining == 9
    target = elsewhere(cluster, cluster.owner(number))
    source = cluster.half_move(number, target)
    try:
        assert (await limiter.check("acme", "r")).remaining == 8
        cluster.move_keys(number, source, target)
        looks = limiter._store.cluster.looks
        found = await asyncio.gather(*(limiter.check("acme", "r") for _ in range(5)))
        assert [each.remaining for each in found] == [7, 6, 5, 4, 3]
        assert {each.source for each in found} == {"store"}
        assert limiter._store.cluster.node_of(number).endpoint.port == source.port, "ASK is never remembered"
        assert limiter._store.cluster.looks == looks
    finally:
        cluster.end_move(number, target)


async def test_colocated_rules_are_decided_also_while_their_slot_moves(
    cluster: Cluster, opened: Opened, until: Until
) -> None:
    """Their keys are at two nodes then (TRYAGAIN): each is asked alone."""
    rules = [
        Rule(name, match={"path": "/**"}, key_by=[name], limit=limit, colocate="login")
        for name, limit in (("client", "9/day"), ("ip", "8/day"))
    ]
    limiter = await opened(cluster.url, rules)

    async def ask(ip: str) -> Decision:
        return await limiter.check_request(Request(client="acme", ip=ip))

    assert (await ask("192.0.2.1")).allowed
    number = slot_of(limiter._store._commands.names.key("client=acme", "login"))
    target = elsewhere(cluster, cluster.owner(number))
    source = cluster.half_move(number, target)
    try:
        found = [await ask("192.0.2.1") for _ in range(2)]  # both keys are at the old node
        found += [await ask("192.0.2.2") for _ in range(2)]  # one key is there, one is new
        cluster.move_keys(number, source, target, count=1)
        found += [await ask("192.0.2.1") for _ in range(2)]  # one is here, one there
        cluster.move_keys(number, source, target)
        found += [await ask("192.0.2.1") for _ in range(2)]  # both are at the new node
    finally:
        cluster.end_move(number, target)
    assert all(each.allowed and not each.degraded for each in found)
    last = await ask("192.0.2.1")
    assert not last.degraded
    assert (last.allowed, last.rule) == (False, "ip") or last.remaining == 0


async def test_rules_over_several_slots_are_decided_also_while_one_slot_moves(cluster: Cluster, opened: Opened) -> None:
    rules = [
        Rule("client", match={"path": "/**"}, key_by=["client"], limit="10/day"),
        Rule("ip", match={"path": "/**"}, key_by=["ip"], limit="3/day"),
    ]
    limiter = await opened(cluster.url, rules)
    request = Request(client="acme", ip="192.0.2.1")
    assert (await limiter.check_request(request)).allowed
    number = slot(limiter)
    target = elsewhere(cluster, cluster.owner(number))
    source = cluster.half_move(number, target)
    try:
        found = [await limiter.check_request(request)]
        cluster.move_keys(number, source, target)
        found += [await limiter.check_request(request) for _ in range(3)]
    finally:
        cluster.end_move(number, target)
    assert [each.allowed for each in found] == [True, True, False, False]
    assert not any(each.degraded for each in found)
    assert (await limiter.peek("acme", "client")).remaining == 7, "a refused request is not charged"


async def test_reset_grant_and_slots_find_their_node(cluster: Cluster, opened: Opened) -> None:
    limiter = await opened(cluster.url, [Rule("r", limit="2/day")])
    for client in ("a", "b", "c", "d", "e"):
        assert [each.allowed for each in await drained(limiter, client, 3)] == [True, True, False]
        await limiter.reset(client, "r")
        assert [each.remaining for each in await drained(limiter, client, 1)] == [1]


async def test_a_map_with_a_hole_fails_only_those_in_it(cluster: Cluster, opened: Opened, until: Until) -> None:
    """CLUSTERDOWN: with full coverage not required, the rest of the cluster goes on."""
    limiter = await opened(cluster.url, [Rule("r", limit="9/day")])
    number = slot(limiter)
    owner = cluster.owner(number)
    other = next(f"c{at}" for at in range(99) if cluster.owner(slot(limiter, f"c{at}")) is not owner)
    for server in cluster.primaries:
        server.ask("CLUSTER", "DELSLOTS", number)
    try:
        for at in range(20):
            assert (await limiter.check("acme", "r")).degraded
            if at < 5:
                assert (await limiter.check(other, "r")).source == "store"
    finally:
        owner.ask("CLUSTER", "ADDSLOTS", number)
    async with asyncio.timeout(20):
        while (await limiter.check("acme", "r")).degraded:
            await asyncio.sleep(0.02)  # the pace of looking


async def test_the_seeds_are_enough_and_one_that_is_away_does_no_harm(
    cluster: Cluster, opened: Opened, free_port: int
) -> None:
    seed = cluster.primaries[2].address
    limiter = await opened(f"redis+cluster://127.0.0.1:{free_port},{seed}", [Rule("r", limit="9/day")])
    assert limiter.store_state == "up"
    assert (await limiter.check("acme", "r")).source == "store"


async def test_one_address_for_a_cluster_says_how_to_write_it(cluster: Cluster, opened: Opened, caplog: Any) -> None:
    limiter = await opened(f"valkey://{cluster.primaries[0].address}", [Rule("r", limit="9/day")])
    found = [await limiter.check(f"c{at}", "r") for at in range(30)]
    assert {each.source for each in found} == {"store", "local_share"}


async def test_a_user_with_the_documented_rights_can_do_everything(
    cluster: Cluster, opened: Opened, until: Until
) -> None:
    """Also where a slot moves, scripts are lost, and the cluster is down for a while."""
    for server in cluster.primaries:
        server.ask("ACL", "SETUSER", "limen", "reset", "on", ">s3cret", *acl_rules().split())
    rules = [
        Rule("r", match={"path": "/**"}, key_by=["client"], limit="100/day"),
        Rule("ip", match={"path": "/**"}, key_by=["ip"], limit="3/day"),
    ]
    limiter = await opened(cluster.url.replace("//", "//limen:s3cret@"), rules)
    number = slot(limiter)
    owner = cluster.owner(number)
    target = elsewhere(cluster, owner)
    request = Request(client="acme", ip="192.0.2.1")
    found = [await limiter.check_request(request)]
    for server in cluster.primaries:
        server.ask("SCRIPT", "FLUSH")
    found.append(await limiter.check_request(request))
    cluster.half_move(number, target)
    found += [await limiter.check("acme", "r"), await limiter.check("acme", "r", 2)]
    cluster.move_keys(number, owner, target)
    found.append(await limiter.check("acme", "r"))
    cluster.end_move(number, target)
    found += [await limiter.check_request(request) for _ in range(2)]
    assert [each.allowed for each in found] == [True] * 6 + [False]
    assert {each.source for each in found} == {"store"}
    await until(lambda: not limiter._store.givings._tasks)
    assert limiter._store.givings.lost == 0
    assert (await limiter.peek("acme", "r")).remaining == 93
    await limiter.reset("acme", "r")
    assert (await limiter.peek("acme", "r")).remaining == 100
    await comes_back_after_a_hole(cluster, limiter, target, number)


async def comes_back_after_a_hole(cluster: Cluster, limiter: AsyncLimiter, owner: Server, number: int) -> None:
    """The breaker opens, and closes when a probe is answered."""
    for server in cluster.primaries:
        server.ask("CONFIG", "SET", "cluster-require-full-coverage", "yes")
    owner.ask("CLUSTER", "DELSLOTS", number)
    try:
        async with asyncio.timeout(20):
            while limiter._store.cluster.nodes[Address("127.0.0.1", owner.port)].state == "up":
                await limiter.check("acme", "r")
                await asyncio.sleep(0.001)  # the pace of asking
    finally:
        owner.ask("CLUSTER", "ADDSLOTS", number)
        for server in cluster.primaries:
            server.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
    async with asyncio.timeout(20):
        while (await limiter.check("acme", "r")).degraded:
            await asyncio.sleep(0.01)  # the pace of asking


async def test_a_candidate_beside_rules_in_other_slots_is_charged_as_if_it_were_in_force(
    cluster: Cluster, opened: Opened, until: Until
) -> None:
    rules = [
        Rule("client", match={"path": "/**"}, limit="2/day", candidate="5/day"),
        Rule("ip", match={"path": "/**"}, key_by=["ip"], limit="4/day"),
    ]
    limiter = await opened(cluster.url, rules)
    givings = limiter._store.givings

    async def ask(number: int, ip: str) -> tuple[bool, bool] | None:
        decision = await limiter.check_request(Request(client=f"c{number}", ip=ip))
        await until(lambda: not givings._tasks)
        found = [(each.live, each.candidate) for each in decision.candidates]
        return found[0] if found else None

    for number in range(10):
        ip = f"192.0.2.{number}"
        assert [await ask(number, ip) for _ in range(4)] == [(True, True)] * 2 + [(False, True)] * 2
        assert (await limiter.peek(ip, "ip")).remaining == 2
        for _ in range(2):  # another client uses up the address
            await limiter.check_request(Request(client=f"other {number}", ip=ip))
        assert [await ask(number, ip) for _ in range(3)] == [None] * 3
        assert [await ask(number, f"198.51.100.{number}") for _ in range(2)] == [(False, True), (False, False)]


async def test_a_candidate_is_charged_under_both_secrets_when_its_limit_refuses_under_one(
    cluster: Cluster, opened: Opened, until: Until
) -> None:
    """What was taken under the other goes back, but for what the candidate takes."""
    rules = [Rule("r", limit="2/day", candidate="5/day")]
    new = await opened(cluster.url, rules, secret="new")
    both = await opened(cluster.url, rules, secret="new", previous_secret="old")
    old = await opened(cluster.url, rules, secret="old")

    async def ask(limiter: AsyncLimiter, client: str) -> tuple[bool, bool]:
        [found] = (await limiter.check(client, "r")).candidates
        await until(lambda: not both._store._store.givings._tasks)
        return found.live, found.candidate

    for client in ("acme", "globex", "initech"):
        assert [await ask(new, client) for _ in range(2)] == [(True, True)] * 2
        assert [await ask(both, client) for _ in range(2)] == [(False, True)] * 2
        assert [await ask(old, client) for _ in range(4)] == [(True, True)] * 2 + [(False, True), (False, False)]
