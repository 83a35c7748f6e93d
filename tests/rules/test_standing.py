"""What is said of single clients decides as a plain list of sentences would, however much there is."""

from __future__ import annotations

import time
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.errors import UsageError
from limen.rules.networks import Networks
from limen.rules.standing import Block, Flag, Override, Standing

NOW = 1_000.0
NAMES = ["acme", "zoo", "10.0.0.1"]
CIDRS = [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.3",
    "0.0.0.0/0",
    "2001:db8::/32",
    "2001:db8::/48",
    "::/0",
    "::ffff:10.1.0.0/112",
]
ADDRESSES = [
    "10.1.2.3",
    "10.1.9.9",
    "10.9.9.9",
    "192.0.2.7",
    "2001:db8::1",
    "2001:db9::1",
    "::ffff:10.1.2.3",
    "[2001:db8::1]:443",
]

ends = st.sampled_from([None, 0, NOW - 1, NOW, NOW + 1])
kinds = st.sampled_from(["block", "allow"])
blocks = st.one_of(
    st.builds(Block, st.sampled_from(["client", "user"]), st.sampled_from(NAMES), kinds, until=ends),
    st.builds(Block, st.just("ip"), st.sampled_from(CIDRS), kinds, until=ends),
)
flags = st.builds(Flag, st.sampled_from(NAMES), ends)
overrides = st.builds(
    Override, st.sampled_from("ab"), st.sampled_from(["client", "plan"]), st.sampled_from(NAMES), st.just("1/s"), ends
)
somebody = st.one_of(st.none(), st.sampled_from([*NAMES, "nobody"]))


def lives(entry: Block | Flag | Override) -> bool:
    return entry.until is None or entry.until > NOW


def network(text: str) -> tuple[int, int, int]:
    """Version, prefix and address, IPv4 where it is mapped."""
    found = ip_network(text, strict=False)
    mapped = getattr(found.network_address, "ipv4_mapped", None)
    if mapped:
        found = ip_network((mapped, found.prefixlen - 96))
    return found.version, found.prefixlen, int(found.network_address)


def simple(said: list[Block], flagged: list[Flag], client: str | None, user: str | None, ip: str | None) -> object:
    """The same without any table: of the same name the last one counts."""
    last: dict[object, Block] = {}
    for block in said:
        last[block.by, network(block.name) if block.by == "ip" else block.name] = block
    named = [b for b in last.values() if lives(b) and (b.by, b.name) in (("client", client), ("user", user))]
    for kind in ("block", "allow"):
        if found := [block for block in named if block.kind == kind]:
            return found[0].kind
    address = ip_address(ip.strip("[").partition("]")[0]) if ip else None
    address = getattr(address, "ipv4_mapped", None) or address
    around = []
    for version, length, number, block in [(*network(each.name), each) for each in last.values() if each.by == "ip"]:
        bits = 32 if version == 4 else 128
        if address and address.version == version and int(address) >> (bits - length) == number >> (bits - length):
            around += [(length, block)] if lives(block) else []
    if around:
        return max(around, key=lambda pair: pair[0])[1].kind
    flags_now = {flag.client: flag for flag in flagged}
    return "flag" if client in flags_now and lives(flags_now[client]) else None


@given(
    st.lists(blocks, max_size=8),
    st.lists(flags, max_size=3),
    somebody,
    somebody,
    st.none() | st.sampled_from(ADDRESSES),
)
def test_the_order_of_what_decides_is_as_written(
    said: list[Block], flagged: list[Flag], client: str | None, user: str | None, ip: str | None
) -> None:
    found = Standing(said, flagged).judge(client, user, ip, lambda: NOW)
    kind = None if found is None else "flag" if isinstance(found, Flag) else found.kind
    assert kind == simple(said, flagged, client, user, ip)


@given(
    st.lists(
        st.tuples(st.lists(blocks, max_size=3), st.lists(flags, max_size=2), st.lists(overrides, max_size=3)),
        max_size=5,
    )
)
def test_changes_one_after_the_other_come_to_the_same_as_all_at_once(
    steps: list[tuple[list[Block], list[Flag], list[Override]]],
) -> None:
    standing = Standing()
    for step in steps:
        standing = standing.replaced(*step, now_s=NOW)
    at_once = Standing(*([entry for step in steps for entry in step[kind]] for kind in range(3))).without_ended(NOW)
    for one, other in zip(standing.without_ended(NOW).entries(), at_once.entries(), strict=True):
        assert sorted(map(str, one)) == sorted(map(str, other))
    assert bool(standing.without_ended(NOW)) == bool(at_once)


@given(st.lists(overrides, max_size=6), somebody, somebody)
def test_a_client_of_its_own_comes_before_its_plan(said: list[Override], client: str | None, plan: str | None) -> None:
    last = {(each.rule, each.by, each.name): each for each in said}
    own, common = (
        each if each is not None and lives(each) else None
        for each in (last.get(("a", "client", client)), last.get(("a", "plan", plan)))
    )
    assert Standing(overrides=said).override("a", client, plan, lambda: NOW) == (own or common)


def test_an_entry_ends_by_itself() -> None:
    standing = Standing([Block("client", "acme", until=NOW)])
    assert standing.judge("acme", None, None, lambda: NOW - 0.001) is not None
    assert standing.judge("acme", None, None, lambda: NOW) is None


def test_a_snapshot_stays_as_it_is() -> None:
    before = Standing([Block("ip", "10.0.0.0/8")], [Flag("acme")], [Override("a", "client", "acme", "1/s")])
    kept = before.entries()
    after = before.replaced(
        [Block("ip", "10.0.0.0/8", until=0)], [Flag("acme", 0)], [Override("a", "client", "acme", "", 0)]
    )
    assert not after
    assert before.entries() == kept


@pytest.mark.parametrize("text", ["", "acme", "10.0.0.0/33", "10.0.0", "::1/129", "10.0.0.1-10.0.0.9"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a network"):
        Networks[int]().replaced([(text, 1)])


def test_a_hundred_thousand_entries_cost_no_more_than_a_hundred() -> None:
    def standing(count: int) -> Standing:
        return Standing(
            [Block("ip", f"10.{n >> 8 & 255}.{n & 255}.{n >> 16}") for n in range(count // 10)],
            [Flag(f"client-{n}") for n in range(count)],
            [Override("a", "client", f"client-{n}", "1/s") for n in range(count)],
        )

    def seconds(of: Standing) -> float:
        began = time.perf_counter()
        for _ in range(5_000):
            of.judge("nobody", None, "192.0.2.7", lambda: NOW)
            of.override("a", "nobody", None, lambda: NOW)
        return time.perf_counter() - began

    few, many = standing(100), standing(100_000)
    assert many.count() == {"block": 10_000, "allow": 0, "flag": 100_000, "override": 100_000}
    ratio = min(seconds(many) for _ in range(3)) / min(seconds(few) for _ in range(3))
    assert ratio < 20  # a walk through them would be a thousand times as long
