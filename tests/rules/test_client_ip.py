"""Who is at the other end, against a reference walk, and the attacks on it."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.errors import UsageError
from limen.rules.client_ip import UNKNOWN_ADDRESS, client_address, networks, parse_address, prefix_key

TRUSTED = networks(["10.0.0.0/8", "fd00::/8"])

proxies = st.sampled_from(["10.0.0.1", "10.255.0.9", "fd00::1", "::ffff:10.1.2.3"])
strangers = st.sampled_from(["192.0.2.1", "203.0.113.66", "2001:db8::5", "::ffff:198.51.100.7", "11.0.0.1"])
decorated = st.builds(
    lambda address, spelling: spelling.format(f"[{address}]" if ":" in address else address),
    proxies | strangers,
    st.sampled_from(["{}", " {} ", "{}:443", "{}:50001"]),
)
garbage = st.sampled_from(["garbage", "_hidden", "unknown", "", "  ", "1.2.3", "[::1", "300.1.1.1", '"192.0.2.1"'])
hops = decorated | garbage | st.text(st.characters(exclude_characters=","), max_size=8)
chains = st.lists(st.lists(hops, max_size=4).map(",".join), max_size=4)


def reference(peer: str, lines: list[str]) -> str | None:
    """The client, by looking at every position: what stands right of it must all be proxies of ours."""
    entries = [entry.strip() for entry in ",".join(lines).split(",") if entry.strip()]
    chain = [*map(parse_address, entries), parse_address(peer)]
    for position in reversed(range(len(chain))):
        here = chain[position]
        if here is None:
            return str(chain[position + 1])
        if not any(here in net for net in TRUSTED):
            return str(here)
    return str(chain[0])


@given(proxies | strangers, chains)
def test_the_client_is_the_nearest_address_that_is_not_a_proxy_of_ours(peer: str, lines: list[str]) -> None:
    assert client_address(peer, lines, TRUSTED) == reference(peer, lines)


@given(st.none() | st.just("") | st.text(max_size=20), chains, st.booleans())
def test_no_peer_and_no_header_raises(peer: str | None, lines: list[str], trust_unix: bool) -> None:
    found = client_address(peer, lines, TRUSTED, trust_unix)
    assert prefix_key(found)


@given(strangers, chains)
def test_the_header_of_a_stranger_is_not_read(peer: str, lines: list[str]) -> None:
    assert client_address(peer, lines, TRUSTED) == str(parse_address(peer))
    assert client_address("10.0.0.1", lines, ()) == "10.0.0.1"


def test_ten_thousand_random_headers_from_one_peer_are_one_client_and_spend_for_nobody_else() -> None:
    dice = Random(1)
    victim = "203.0.113.9"
    found = {
        client_address(peer, [f"{victim}, {IPv4Address(dice.getrandbits(32))}, 192.0.2.5"], trusted)
        for _ in range(5000)
        for peer, trusted in (("192.0.2.5", TRUSTED), ("10.0.0.1", TRUSTED))
    }
    assert found == {"192.0.2.5"}


@pytest.mark.parametrize(
    ("lines", "client"),
    [
        (["203.0.113.66, 198.51.100.7, 10.0.0.2"], "198.51.100.7"),
        (["203.0.113.66", "198.51.100.7, 10.0.0.2"], "198.51.100.7"),
        (["198.51.100.7,10.0.0.2", "10.0.0.3"], "198.51.100.7"),
        (["10.0.0.5"], "10.0.0.5"),
        ([""], "10.0.0.1"),
        ([], "10.0.0.1"),
        (["garbage, 10.0.0.2"], "10.0.0.2"),
        (["198.51.100.7, garbage"], "10.0.0.1"),
        (["192.0.2.5:41234"], "192.0.2.5"),
        (["[2001:db8::5]:443"], "2001:db8::5"),
        (["2001:db8::5"], "2001:db8::5"),
        (["192.0.2.5:41234, 10.0.0.2:80"], "192.0.2.5"),
        (["198.51.100.7" + ", 10.0.0.2" * 49], "198.51.100.7"),
        (["198.51.100.7" + ", 10.0.0.2" * 50], "10.0.0.2"),
    ],
)
def test_chain(lines: list[str], client: str) -> None:
    assert client_address("10.0.0.1", lines, TRUSTED) == client


@pytest.mark.parametrize("peer", [None, ""])
def test_a_unix_socket_is_nobody_unless_it_is_declared_trusted(peer: str | None) -> None:
    assert client_address(peer, ["198.51.100.7"], TRUSTED) is None
    assert client_address(peer, ["198.51.100.7"], TRUSTED, trust_unix=True) == "198.51.100.7"
    assert client_address(peer, [], TRUSTED, trust_unix=True) is None
    assert prefix_key(client_address(peer, [], TRUSTED)) == "unknown"


TWENTY_SPELLINGS = [
    "2001:db8::1", "2001:DB8::1", "2001:0db8::0001", "2001:db8:0:0:0:0:0:1", "2001:DB8:0:0:0:0:0:1",
    "2001:0DB8:0000:0000:0000:0000:0000:0001", "2001:db8:0::1", "2001:db8::0:1", "2001:db8::0:0:1",
    "2001:db8:0:0::1", "[2001:db8::1]", "[2001:db8::1]:443", "[2001:DB8::1]:50001", " 2001:db8::1", "2001:db8::1 ",
    "2001:db8::1%eth0", "2001:db8::1%1", "[2001:db8::1%eth0]:80", "2001:db8::0.0.0.1", "[2001:db8:0::1]",
]  # fmt: skip


def test_twenty_spellings_of_an_address_are_one_bucket() -> None:
    assert len(set(TWENTY_SPELLINGS)) == 20
    assert {parse_address(text) for text in TWENTY_SPELLINGS} == {IPv6Address("2001:db8::1")}
    assert {prefix_key(text) for text in TWENTY_SPELLINGS} == {"2001:db8::/64"}


@pytest.mark.parametrize(
    "text",
    ["192.0.2.1", "::ffff:192.0.2.1", "::FFFF:192.0.2.1", "::ffff:c000:0201", "[::ffff:192.0.2.1]:80", "192.0.2.1:9"],
)
def test_a_mapped_address_is_the_ipv4_address(text: str) -> None:
    assert prefix_key(text) == "192.0.2.1"
    assert prefix_key(text) != prefix_key("::ffff:192.0.2.2")


@given(st.integers(0, 2**128 - 1))
def test_every_address_of_a_64_is_counted_as_one(number: int) -> None:
    address = IPv6Address(number)
    if address.ipv4_mapped:
        assert prefix_key(str(address)) == str(address.ipv4_mapped)
        return
    assert prefix_key(str(address)) == str(IPv6Network((number >> 64 << 64, 64)))
    assert prefix_key(str(address), 48) == str(IPv6Network((number >> 80 << 80, 48)))
    assert parse_address(prefix_key(str(address)).partition("/")[0]) in IPv6Network((address, 64), strict=False)


@given(st.ip_addresses())
def test_an_address_is_read_back_from_its_own_spelling(address: IPv4Address | IPv6Address) -> None:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    assert parse_address(str(address)) == (mapped or address)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "unknown",
        "_hidden",
        "1.2.3",
        "192.0.2.01",
        "0x7f.1",
        "127.1",
        "256.1.1.1",
        "::g",
        "a" * 100_000,
        "1.1.1.1\x00",
    ],
)
def test_what_is_no_address_is_none(text: str) -> None:
    assert parse_address(text) is None
    assert prefix_key(text) == "unknown"


@pytest.mark.parametrize(
    ("text", "member", "stranger"),
    [
        ("10.0.0.0/8", "10.1.2.3", "11.0.0.1"),
        ("10.1.2.3/8", "10.9.9.9", "11.0.0.1"),
        (" 192.0.2.7 ", "192.0.2.7", "192.0.2.8"),
        ("2001:db8::/32", "2001:db8:1::1", "2001:db9::"),
        ("::ffff:10.0.0.0/104", "10.1.2.3", "11.0.0.1"),
        ("::ffff:192.0.2.7", "192.0.2.7", "192.0.2.8"),
        ("::/0", "2001:db8::1", "192.0.2.8"),
    ],
)
def test_a_network(text: str, member: str, stranger: str) -> None:
    (network,) = networks([text])
    assert ip_address(member) in network
    assert ip_address(stranger) not in network


@pytest.mark.parametrize("text", ["", "10.0.0.0/33", "10.0.0", "localhost", "10.0.0.0-10.0.0.9"])
def test_what_is_no_network_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a network; write it as '10\.0\.0\.0/8'"):
        networks(["192.0.2.0/24", text])


@given(st.one_of(st.ip_addresses(v=4).map(str), st.from_regex(r"[0-9.]{1,16}", fullmatch=True)))
def test_an_ipv4_address_is_counted_by_what_reading_it_gives(text: str) -> None:
    address = parse_address(text)
    assert prefix_key(text) == (UNKNOWN_ADDRESS if address is None else str(address))
