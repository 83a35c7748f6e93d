"""Which requests a match stands for, as sets: whether one match covers another, and whether two have any in common.

Where it is not certain that every request of one is a request of the other, the answer is that it is not covered;
where it is not certain that two have none in common, that they have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any, NamedTuple

from limen.rules.client_ip import Network, networks
from limen.rules.match import ANY_SEGMENT, Match, PathPattern

__all__ = ["Scope", "scope_of"]

Texts = Set[str]
Place = tuple[object, ...]
Block = tuple[int, int, int]
"""A network: 4 or 6, how many bits it is known by, and these."""


class Scope(NamedTuple):
    """The requests that a match holds for; None for what it does not ask for."""

    path: PathPattern | None
    methods: Texts | None
    hosts: Texts | None
    plans: Texts | None
    clients: Texts | None
    networks: Set[Block] | None
    headers: Mapping[str, Texts]

    def covers(self, other: Scope) -> bool:
        """Whether every request of `other` is one of these."""
        return (
            path_covers(self.path, other.path)
            and _contains(self.methods, other.methods)
            and _contains(self.plans, other.plans)
            and _contains(self.clients, other.clients)
            and _hosts_cover(self.hosts, other.hosts)
            and _networks_cover(self.networks, other.networks)
            and all(_contains(values, other.headers.get(name)) for name, values in self.headers.items())
        )

    def meets(self, other: Scope) -> bool:
        """Whether a request can be one of both."""
        return (
            paths_meet(self.path, other.path)
            and _share(self.methods, other.methods)
            and _share(self.plans, other.plans)
            and _share(self.clients, other.clients)
            and _hosts_meet(self.hosts, other.hosts)
            and _networks_meet(self.networks, other.networks)
            and all(_share(values, other.headers.get(name)) for name, values in self.headers.items())
        )

    def marks(self) -> list[Place] | None:
        """Places, of which whatever is covered by this is at one (`places`); None when this asks for nothing of it."""
        if self.clients:
            return [("client", client) for client in self.clients]
        for name, values in self.headers.items():
            return [("header", name, value) for value in values]
        *_, literal = [None, *_literals(self.path)]
        if literal is not None:
            return [("path", *literal)]
        return [("plan", plan) for plan in self.plans] if self.plans else None

    def places(self) -> Iterator[Place]:
        """Where the `marks` of a wider scope can be: one of each kind that this asks for, as that asks for it too."""
        if self.clients:
            yield "client", min(self.clients)
        yield from (("header", name, min(values)) for name, values in self.headers.items())
        yield from (("path", *literal) for literal in _literals(self.path))
        if self.plans:
            yield "plan", min(self.plans)


def scope_of(match: Match) -> Scope:
    """The requests that a match holds for."""
    document: Mapping[str, Any] = match.document or {}
    texts = {name: _texts(document[name]) for name in ("methods", "host", "plan", "client", "ip") if name in document}
    methods = {method.upper() for method in texts["methods"]} if "methods" in texts else None
    if methods and "GET" in methods:
        methods.add("HEAD")
    hosts = {host.lower().rstrip(".") for host in texts["host"]} if "host" in texts else None
    nets = frozenset(map(_block, networks(texts["ip"]))) if "ip" in texts else None
    headers = {str(name).lower(): _texts(values) for name, values in document.get("header", {}).items()}
    return Scope(match.path, methods, hosts, texts.get("plan"), texts.get("client"), nets, headers)


def _texts(value: Any) -> Texts:
    return frozenset([value] if isinstance(value, str) else value)


def _literals(path: PathPattern | None) -> Iterator[tuple[int, str]]:
    segments = enumerate(path.segments if path else ())
    return ((index, segment) for index, segment in segments if segment != ANY_SEGMENT)


def path_covers(wide: PathPattern | None, narrow: PathPattern | None) -> bool:
    """Whether every path of `narrow` is one of `wide`; None is every path."""
    if wide is None or (wide.open_ended and not wide.segments):
        return True
    if narrow is None or len(narrow.segments) < len(wide.segments):
        return False
    if not wide.open_ended and (narrow.open_ended or len(narrow.segments) > len(wide.segments)):
        return False
    pairs = zip(wide.segments, narrow.segments, strict=False)
    return all(mine in (ANY_SEGMENT, theirs) for mine, theirs in pairs)


def paths_meet(one: PathPattern | None, other: PathPattern | None) -> bool:
    """Whether a path can fit both."""
    if one is None or other is None:
        return True
    short, long = sorted((one, other), key=lambda path: len(path.segments))
    if len(short.segments) < len(long.segments) and not short.open_ended:
        return False
    pairs = zip(short.segments, long.segments, strict=False)
    return all(ANY_SEGMENT in pair or pair[0] == pair[1] for pair in pairs)


def _contains(wide: Texts | None, narrow: Texts | None) -> bool:
    return wide is None or (narrow is not None and narrow <= wide)


def _share(one: Texts | None, other: Texts | None) -> bool:
    return one is None or other is None or not one.isdisjoint(other)


def _hosts_cover(wide: Texts | None, narrow: Texts | None) -> bool:
    if wide is None or narrow is None:
        return wide is None
    return all(any(name in wide for name in _wider_hosts(host)) for host in narrow)


def _wider_hosts(host: str) -> Iterator[str]:
    """Everything that covers a host: `a.b.c` itself, `*.b.c` and `*.c`; `*.b.c` itself and `*.c`."""
    yield host
    _, _, rest = host.removeprefix("*.").partition(".")
    while rest:
        yield f"*.{rest}"
        _, _, rest = rest.partition(".")


def _hosts_meet(one: Texts | None, other: Texts | None) -> bool:
    if one is None or other is None:
        return True
    pairs = ((one, other), (other, one))
    return any(name in wide for wide, narrow in pairs for host in narrow for name in _wider_hosts(host))


def _block(net: Network) -> Block:
    return net.version, net.prefixlen, int(net.network_address) >> (net.max_prefixlen - net.prefixlen)


def _wider_blocks(block: Block, lengths: Set[int]) -> Iterator[Block]:
    """The networks of these lengths that a network lies in."""
    version, length, bits = block
    return ((version, wider, bits >> (length - wider)) for wider in lengths if wider <= length)


def _networks_cover(wide: Set[Block] | None, narrow: Set[Block] | None) -> bool:
    if wide is None or narrow is None:
        return wide is None
    lengths = {length for _, length, _ in wide}
    return all(any(block in wide for block in _wider_blocks(net, lengths)) for net in narrow)


def _networks_meet(one: Set[Block] | None, other: Set[Block] | None) -> bool:
    if one is None or other is None:
        return True
    return any(_networks_cover(wide, {net}) for wide, narrow in ((one, other), (other, one)) for net in narrow)
