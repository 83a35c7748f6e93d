"""Nobody is found in a sample by name, and everything that rules tell apart is told apart there."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.rules.client_ip import prefix_key
from limen.sim.pseudonyms import Pseudonyms

names = Pseudonyms(b"a secret of sixteen or more")
addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)


def place(written: str) -> str:
    found = names.address(written)
    assert found is not None
    return found


def test_a_name_is_always_the_same_and_tells_nothing() -> None:
    found = names.name("acme")
    assert found == Pseudonyms(b"a secret of sixteen or more").name("acme")
    assert found != Pseudonyms(b"another secret of sixteen").name("acme")
    assert "acme" not in found


def test_names_values_and_ranks_are_different_secrets() -> None:
    assert len({names.name("acme"), names.value("acme")}) == 2
    assert 0 <= names.rank("acme") < 1


def test_ranks_are_spread_evenly() -> None:
    below = sum(names.rank(f"client-{number}") < 0.1 for number in range(5000))
    assert 400 < below < 600


@pytest.mark.parametrize("network", ["192.0.2.0/24", "198.51.100.0/24"])
def test_every_address_of_a_network_has_its_own_place_in_it(network: str) -> None:
    found = {place(str(each)) for each in ip_network(network)}
    assert found == {str(each) for each in ip_network(network)}


def test_addresses_are_not_where_they_were() -> None:
    moved = [place(str(each)) != str(each) for each in ip_network("192.0.2.0/24")]
    assert sum(moved) > 240


@given(addresses)
def test_an_address_stays_in_its_network(written: str) -> None:
    bits = 24 if ip_address(written).version == 4 and "." in written else 48
    mapped = getattr(ip_address(written), "ipv4_mapped", None)
    network = ip_network((str(mapped or written), 24 if mapped else bits), strict=False)
    assert ip_address(place(written)) in network


@given(st.ip_addresses(v=6).filter(lambda each: each.ipv4_mapped is None), st.integers(0, 2**80 - 1))
def test_addresses_that_are_counted_together_stay_together_and_no_others(address: object, other_bits: int) -> None:
    one = ip_address(str(address))
    other = ip_address((int(one) >> 80 << 80) | other_bits)
    for bits in (48, 56, 64):
        together = prefix_key(str(one), bits) == prefix_key(str(other), bits)
        assert (prefix_key(place(str(one)), bits) == prefix_key(place(str(other)), bits)) == together


@given(st.ip_addresses(v=4), st.integers(0, 32), st.ip_addresses(v=4))
def test_a_network_of_a_rule_holds_the_same_ipv4_addresses(base: object, bits: int, address: object) -> None:
    network = ip_network((str(base), bits), strict=False)
    found = [ip_network(each) for each in names.networks(str(network))]
    inside = ip_address(str(address)) in network
    assert any(ip_address(place(str(address))) in each for each in found) == inside


@given(
    st.ip_addresses(v=6).filter(lambda each: each.ipv4_mapped is None), st.integers(0, 64), st.integers(0, 2**80 - 1)
)
def test_a_network_of_a_rule_holds_the_same_ipv6_addresses(base: object, bits: int, near: int) -> None:
    network = ip_network((str(base), bits), strict=False)
    found = [ip_network(each) for each in names.networks(str(network))]
    address = ip_address((int(ip_address(str(base))) >> 80 << 80) | near)
    assert any(ip_address(place(str(address))) in each for each in found) == (address in network)


def test_what_is_no_address_has_no_place() -> None:
    assert names.address("unknown") is None
