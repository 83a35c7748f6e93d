"""Which requests are remembered: a stable part of the clients, those who ask most, and never too many."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen import Decision, Request, Rule
from limen.engine.conclude import no_limit
from limen.engine.sampled import SampledLimiter
from limen.engine.sampler import MOST_KNOWN, Sampler

ALLOWED = no_limit()


def rank(name: str) -> float:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) / 2**64


def sampler(percent: float = 1.0, places: int = 0, most: int = 50_000) -> Sampler:
    return Sampler(rank, lambda: 1_750_000_000_000_000, percent, places, most)


def ask(found: Sampler, *clients: str, times: int = 1) -> None:
    for client in clients:
        for _ in range(times):
            found.asked(Request(client=client), ALLOWED)


def heard_of(found: Sampler) -> Counter[str | None]:
    return Counter(each.request.client for each in found.take())


def test_a_part_of_the_clients_is_remembered_with_everything_and_stands_for_all() -> None:
    found, clients = sampler(percent=10), [f"client-{number}" for number in range(3000)]
    ask(found, *clients, times=3)
    heard = found.take()
    chosen = {client for client in clients if rank(client) < 0.1}
    assert Counter(each.request.client for each in heard) == dict.fromkeys(chosen, 3)
    assert sum(each.weight for each in heard) == pytest.approx(9000, rel=0.15)


def test_it_is_the_same_part_everywhere_and_always() -> None:
    one, other = sampler(percent=10), sampler(percent=10)
    clients = [f"client-{number}" for number in range(500)]
    ask(one, *clients)
    ask(other, *reversed(clients))
    other.rank_anew(1.0)
    ask(other, *clients)
    assert set(heard_of(one)) == set(heard_of(other))


def test_few_clients_are_all_remembered_one_by_one() -> None:
    found = sampler(places=100)
    ask(found, *(f"client-{number}" for number in range(100)), times=2)
    heard = found.take()
    assert len(heard) == 200
    assert {each.weight for each in heard} == {1.0}


def test_who_asks_most_is_found_among_very_many() -> None:
    found = sampler(percent=0.001, places=10)
    heavy = [f"heavy-{number}" for number in range(10)]
    for round_number in range(60):
        ask(found, *(f"once-{round_number}-{number}" for number in range(1000)))
        ask(found, *heavy, times=5)
    found.take()
    found.rank_anew(1.0)
    ask(found, *heavy, *(f"later-{number}" for number in range(1000)))
    assert set(heard_of(found)) == set(heavy)
    assert len(found._clients) + len(found._before) <= 2 * MOST_KNOWN


def test_a_smaller_share_remembers_fewer_who_stand_for_more() -> None:
    found, clients = sampler(places=1000), [f"client-{number}" for number in range(1000)]
    ask(found, *clients)
    whole = set(heard_of(found))
    found.rank_anew(0.25)
    ask(found, *clients)
    heard = found.take()
    assert {each.request.client for each in heard} < whole
    assert {each.weight for each in heard} == {4.0}
    assert sum(each.weight for each in heard) == pytest.approx(1000, rel=0.2)


def test_more_than_there_is_room_for_is_dropped_and_counted() -> None:
    found = sampler(places=10, most=5)
    ask(found, "acme", times=8)
    assert (len(found.take()), found.heard_total, found.dropped_total) == (5, 5, 3)
    ask(found, "acme")
    assert len(found.take()) == 1


def test_only_headers_that_rules_look_at_are_remembered() -> None:
    found = sampler(places=10)
    found.headers = ["x-tier"]
    found.asked(Request(client="acme", headers={"x-tier": "gold", "authorization": "Bearer secret"}), ALLOWED)
    found.asked(Request(client="acme", headers={"authorization": "Bearer secret"}), ALLOWED)
    assert [dict(each.request.headers) for each in found.take()] == [{"x-tier": "gold"}, {}]


def test_what_no_rule_decided_says_nothing_of_rules() -> None:
    found = sampler(places=10)
    found.asked(Request(client="acme"), ALLOWED._replace(standing="block"))  # type: ignore[arg-type]
    assert found.take() == []


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", "d", "e", "f"]), st.booleans()), max_size=200))
def test_of_no_traffic_is_anything_but_that_remembered(asked: list[tuple[str, bool]]) -> None:
    found, wanted = sampler(places=6), Counter[str]()
    for client, again in asked:
        ask(found, client)
        wanted[client] += 1
        if again:
            found.rank_anew(1.0)
    assert heard_of(found) == wanted


async def test_a_limiter_shows_what_it_decided() -> None:
    found = sampler(places=10)
    rules = [Rule("search", limit="2/minute"), Rule("all", match={"path": "/v1/**"}, key_by=["ip"], limit="1/minute")]
    async with SampledLimiter(found, "memory://", rules) as limiter:
        decisions: list[Decision] = [
            await limiter.check("acme", "search", 2),
            await limiter.check_request(Request(path="/v1/x", ip="192.0.2.7")),
            *await limiter.check_many([("acme", "search"), ("other", "search", 2)]),
        ]
        await limiter.peek("acme", "search")
    assert [decision.allowed for decision in decisions] == [True, True, False, True]
    assert [(each.request.client, each.request.ip, each.rule, each.cost) for each in found.take()] == [
        ("acme", None, "search", 2),
        (None, "192.0.2.7", None, None),
        ("acme", None, "search", 1),
        ("other", None, "search", 2),
    ]
