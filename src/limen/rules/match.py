"""Which requests a rule applies to. Everything that is given must hold; nothing given matches all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limen.errors import UsageError
from limen.rules.client_ip import Network, networks, parse_address
from limen.rules.path import canonical_path
from limen.rules.request import Request

__all__ = ["Match", "PathPattern", "bare_host", "match_from_mapping", "path_pattern"]

Predicate = Callable[[Request], bool]

REST = "**"
ANY_SEGMENT = "*"
CAPTURE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
HOST = re.compile(r"(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]")
MAX_HOST = 253
METHOD = re.compile(r"[A-Za-z][A-Za-z-]{0,31}")
FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.1
FIELD_VALUE = re.compile(r"(?![ \t])[^\x00-\x08\x0a-\x1f\x7f]+(?<![ \t])")


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A path pattern: literal segments, `*` for any one segment, `**` last for any rest (none too).

    `{name}` is any one segment too; `captures` says which.
    """

    text: str
    segments: tuple[str, ...]
    open_ended: bool
    captures: Mapping[str, int]

    def matches(self, segments: Sequence[str]) -> bool:
        """Whether a canonical path with these segments fits."""
        if len(segments) < len(self.segments) or (len(segments) > len(self.segments) and not self.open_ended):
            return False
        return all(mine in (ANY_SEGMENT, theirs) for mine, theirs in zip(self.segments, segments, strict=False))


@dataclass(frozen=True, slots=True)
class Match:
    """A compiled `match`: the path apart (an index finds it), everything else as predicates."""

    path: PathPattern | None = None
    predicates: tuple[Predicate, ...] = ()
    document: Mapping[str, Any] | None = None

    def holds(self, request: Request) -> bool:
        """Whether everything but the path holds."""
        return all(predicate(request) for predicate in self.predicates)


def path_pattern(text: object) -> PathPattern:
    """A pattern from its text, such as `/v1/items/{id}/**`.

    Raises:
        UsageError: says what to write instead.
    """
    if not isinstance(text, str) or not text.startswith("/"):
        raise UsageError(f"a path starts with '/', such as '/v1/**', not {text!r}")
    if "?" in text or "#" in text:
        raise UsageError(f"{text!r}: a path has no query; rules ignore it")
    written = [segment for segment in text.split("/") if segment]
    open_ended = bool(written) and written[-1] == REST
    segments, captures = [], {}
    for index, segment in enumerate(written[:-1] if open_ended else written):
        name = CAPTURE.fullmatch(segment)
        if name is None:
            segments.append(_literal(segment, text))
            continue
        if name[1] in captures:
            raise UsageError(f"{text!r}: '{{{name[1]}}}' is there twice; give each segment its own name")
        captures[name[1]] = index
        segments.append(ANY_SEGMENT)
    return PathPattern(text, tuple(segments), open_ended, captures)


def _literal(segment: str, text: str) -> str:
    """`*`, or a segment in the spelling that requests are compared in; any other would never match."""
    if segment != ANY_SEGMENT and any(sign in segment for sign in "*{}"):
        raise UsageError(f"{text!r}: {segment!r} must be a whole segment: '*', '{{name}}', or '**' at the end")
    canonical = canonical_path("/" + segment)
    if canonical != "/" + segment:
        raise UsageError(f"{text!r}: no request is seen with '/{segment}' in its path; write {canonical!r}")
    return segment


def match_from_mapping(raw: object) -> Match:
    """A match from `{methods, path, host, plan, client, ip, header}`.

    Raises:
        UsageError: names the field and says what to write instead.
    """
    if not isinstance(raw, Mapping):
        raise UsageError(f"match must be a mapping such as {{path: /v1/**}}, not {raw!r}")
    unknown = sorted(str(name) for name in raw if name not in BUILDERS and name != "path")
    if unknown:
        hint = " (expressions are not supported)" if "when" in unknown else ""
        raise UsageError(f"match has no field {unknown[0]!r}{hint}; it knows {', '.join(sorted([*BUILDERS, 'path']))}")
    pattern = path_pattern(raw["path"]) if "path" in raw else None
    predicates = tuple(build(raw[name]) for name, build in BUILDERS.items() if name in raw)
    return Match(pattern, predicates, dict(raw))


def _texts(value: object, name: str) -> frozenset[str]:
    """One text or a list of them. YAML reads a bare `no` or `1e3` as something else: say so."""
    items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    for item in items:
        if not isinstance(item, str) or not item:
            raise UsageError(f"match.{name} must be text or a list of texts, not {item!r}; put it in quotes")
    if not items:
        raise UsageError(f"match.{name} is an empty list and matches nothing; leave it out to match all")
    return frozenset(items)


def _methods(value: object) -> Predicate:
    names = {name.upper() for name in _texts(value, "methods")}
    for name in names:
        if not METHOD.fullmatch(name):
            raise UsageError(f"match.methods: {name!r} is not an HTTP method")
    if "GET" in names:
        names.add("HEAD")
    return lambda request: request.method in names or request.method.upper() in names


def _hosts(value: object) -> Predicate:
    names = {_host_name(name) for name in _texts(value, "host")}
    suffixes = tuple(name[1:] for name in names if name.startswith("*."))

    def holds(request: Request) -> bool:
        host = bare_host(request.host)
        return host in names or (bool(suffixes) and host.endswith(suffixes))

    return holds


def _host_name(text: str) -> str:
    name = text.lower().rstrip(".")
    if not HOST.fullmatch(name) or len(name) > MAX_HOST:
        raise UsageError(f"match.host: {text!r} is not a host; write 'example.com' or '*.example.com', without a port")
    return name


def bare_host(host: str) -> str:
    """A Host header without port and final dot, in lower case."""
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].rstrip(".")


def _plans(value: object) -> Predicate:
    names = _texts(value, "plan")
    return lambda request: request.plan in names


def _clients(value: object) -> Predicate:
    names = _texts(value, "client")
    return lambda request: request.client in names


def _addresses(value: object) -> Predicate:
    tables = _by_length(networks(_texts(value, "ip")))

    def holds(request: Request) -> bool:
        address = parse_address(request.ip) if request.ip else None
        if address is None:
            return False
        number = int(address)
        return any(number >> shift in blocks for shift, blocks in tables[address.version])

    return holds


def _by_length(nets: Iterable[Network]) -> Mapping[int, Sequence[tuple[int, frozenset[int]]]]:
    """By version: how many bits of an address do not count, and what the others can be. Thousands of networks have a
    few lengths, so a look stays short."""
    found: dict[tuple[int, int], set[int]] = {}
    for net in nets:
        shift = net.max_prefixlen - net.prefixlen
        found.setdefault((net.version, shift), set()).add(int(net.network_address) >> shift)
    return {
        version: [(shift, frozenset(blocks)) for (of, shift), blocks in found.items() if of == version]
        for version in (4, 6)
    }


def _headers(value: object) -> Predicate:
    if not isinstance(value, Mapping) or not value:
        raise UsageError(f"match.header must be a mapping such as {{x-tier: gold}}, not {value!r}")
    wanted = {_field_name(name): _field_values(texts, name) for name, texts in value.items()}
    return lambda request: all(request.headers.get(name) in texts for name, texts in wanted.items())


def _field_name(name: object) -> str:
    if not isinstance(name, str) or not FIELD_NAME.fullmatch(name):
        raise UsageError(f"match.header: no request has a field {name!r}; write its name alone, such as x-tier")
    return name.lower()


def _field_values(value: object, name: object) -> frozenset[str]:
    values = _texts(value, f"header.{name}")
    for text in values:
        if not FIELD_VALUE.fullmatch(text):
            raise UsageError(f"match.header.{name}: no request has {text!r} in it; leave out blanks at the ends")
    return values


BUILDERS: Mapping[str, Callable[[object], Predicate]] = {
    "methods": _methods,
    "host": _hosts,
    "plan": _plans,
    "client": _clients,
    "ip": _addresses,
    "header": _headers,
}
