"""Names under which clients, users and addresses are sampled: always the same, and telling nobody who it was.

A name becomes a keyed hash. Of an address the network stays (IPv4 /24, IPv6 /48), so that rules for networks find it
still; inside of it every address gets another's place, by a keyed permutation, so that different ones stay different.
Below the /48 of IPv6 that is done byte by byte: two addresses of one /56 or /64 stay together, as rules count by
those. The key is made of the secret of the deployment; without it nobody can try names.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import product

from limen.rules.client_ip import parse_address

__all__ = ["Pseudonyms"]

NAME_BYTES = 12
RANKS = 2**64
REMEMBERED = 65_536

Network = IPv4Network | IPv6Network


class Pseudonyms:
    """Names under one secret.

    Args:
        secret: of the deployment.
    """

    def __init__(self, secret: bytes) -> None:
        self._key = blake2b(secret, digest_size=32, person=b"limen sample").digest()
        self.fingerprint = blake2b(b"", key=self._key, digest_size=8, person=b"limen which").hexdigest()
        """Says which secret it is, and nothing else of it."""
        self.name = lru_cache(REMEMBERED)(self._name)
        """The pseudonym of a client or user."""
        self.address = lru_cache(REMEMBERED)(self._address)
        """The pseudonym of an address, which is an address of the same network; None when it cannot be read."""

    def rank(self, name: str) -> float:
        """A place between 0 and 1, by which clients are chosen."""
        return int.from_bytes(self._hash(b"rank", name.encode(errors="surrogatepass"), 8)) / RANKS

    def value(self, text: str) -> str:
        """The pseudonym of the value of a header."""
        return "~" + self._hash(b"value", text.encode(errors="surrogatepass"), NAME_BYTES).hex()

    def networks(self, written: str) -> list[str]:
        """The networks and addresses in which those of a network are found again.

        Raises:
            ValueError: not a network.
        """
        network = ip_network(written.strip(), strict=False)
        bits, base = network.prefixlen, network.network_address
        mapped = base.ipv4_mapped if isinstance(base, IPv6Address) and bits >= 96 else None
        if mapped is not None:
            return self.networks(f"{mapped}/{bits - 96}")
        if isinstance(base, IPv4Address):
            return [written] if bits <= 24 else [str(self.address(str(each))) for each in network]
        return [written] if bits <= 48 else self._ipv6_networks(base, bits)

    def _name(self, text: str) -> str:
        return "~" + self._hash(b"name", text.encode(errors="surrogatepass"), NAME_BYTES).hex()

    def _address(self, text: str) -> str | None:
        address = parse_address(text)
        if address is None:
            return None
        packed = address.packed
        return str(ip_address(self._v4(packed) if len(packed) == 4 else self._v6(packed)))

    def _v4(self, packed: bytes) -> bytes:
        return packed[:3] + bytes([self._moved(packed[:3], packed[3])])

    def _v6(self, packed: bytes) -> bytes:
        """The network, two bytes moved one after the other, and a hash of the rest."""
        subnet = bytes([self._moved(packed[:6], packed[6]), self._moved(packed[:7], packed[7])])
        return packed[:6] + subnet + self._hash(b"host", packed, 8)

    def _ipv6_networks(self, base: IPv6Address, bits: int) -> list[str]:
        packed = base.packed
        if bits > 64:
            return [str(self.address(str(base)))] if bits == 128 else self._ipv6_networks(base, 64)
        sixth = _values(packed[6], bits - 48)
        if bits <= 56:
            moved = (packed[:6] + bytes([self._moved(packed[:6], each)]) for each in sixth)
            return [f"{IPv6Address(head + bytes(9))}/56" for head in moved]
        pairs = product(sixth, _values(packed[7], bits - 56))
        return [f"{IPv6Address(self._subnet(packed[:6], *pair) + bytes(8))}/64" for pair in pairs]

    def _subnet(self, head: bytes, sixth: int, seventh: int) -> bytes:
        before = head + bytes([sixth])
        return head + bytes([self._moved(head, sixth), self._moved(before, seventh)])

    def _moved(self, before: bytes, byte: int) -> int:
        """A byte in the place of another: a Feistel network of four rounds over its halves, keyed by what is before."""
        left, right = byte >> 4, byte & 15
        for number in range(4):
            mixed = self._hash(b"byte", bytes([number, right]) + before, 1)[0] & 15
            left, right = right, left ^ mixed
        return left << 4 | right

    def _hash(self, of: bytes, text: bytes, size: int) -> bytes:
        return blake2b(text, key=self._key, digest_size=size, person=b"limen " + of).digest()


def _values(byte: int, bits: int) -> list[int]:
    """All bytes whose first bits, eight at most, are those of this one."""
    free = 8 - min(bits, 8)
    first = byte >> free << free
    return [first + each for each in range(1 << free)]
