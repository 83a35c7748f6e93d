"""Values by network: the one of the smallest network that an address lies in, without going through them all.

Networks of one length are the keys of one table, so that a look costs one step for each length that there is: at most
33 for IPv4 and 129 for IPv6, and a handful as a rule. Pure and immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from limen.rules.client_ip import Address, Network, networks

__all__ = ["Networks"]

Value = TypeVar("Value")
Table = Mapping[int, Mapping[int, Value]]
"""Shift to (address shifted by it to value), the smallest shift first: the longest prefix."""

BITS = {4: 32, 6: 128}


class Networks(Generic[Value]):
    """Nothing at first; `replaced` gives others."""

    __slots__ = ("_tables",)

    def __init__(self) -> None:
        self._tables: Mapping[int, Table[Value]] = {}

    def __bool__(self) -> bool:
        return bool(self._tables)

    @staticmethod
    def parse(text: str) -> Network:
        """
        Raises:
            UsageError: not a network or an address.
        """
        return networks([text])[0]

    def values(self) -> list[Value]:
        """All of them."""
        lengths = (table for tables in self._tables.values() for table in tables.values())
        return [value for table in lengths for value in table.values()]

    def find(self, address: Address, holds: Callable[[Value], bool]) -> Value | None:
        """The value of the smallest network around the address, of those that hold."""
        tables = self._tables.get(address.version)
        if tables is None:
            return None
        number = int(address)
        for shift, table in tables.items():
            value = table.get(number >> shift)
            if value is not None and holds(value):
                return value
        return None

    def replaced(self, changes: Iterable[tuple[str, Value | None]]) -> Networks[Value]:
        """The same with other values for some networks, or with none; of the same network the last one counts.

        Raises:
            UsageError: one of them is no network.
        """
        tables = {version: {shift: dict(table) for shift, table in of.items()} for version, of in self._tables.items()}
        for text, value in changes:
            version, shift, number = _place(text)
            table = tables.setdefault(version, {}).setdefault(shift, {})
            table.pop(number, None)
            if value is not None:
                table[number] = value
        found = Networks[Value]()
        found._tables = {version: _sorted(of) for version, of in tables.items() if any(of.values())}
        return found


def _place(text: str) -> tuple[int, int, int]:
    """Version, shift and shifted number of a network."""
    network = Networks.parse(text)
    shift = BITS[network.version] - network.prefixlen
    return network.version, shift, int(network.network_address) >> shift


def _sorted(tables: Mapping[int, dict[int, Value]]) -> Table[Value]:
    return {shift: tables[shift] for shift in sorted(tables) if tables[shift]}
