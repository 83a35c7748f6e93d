"""From a store URL to what it points to.

    valkey://[user:password@]host[:6379][/database]                       one server
    valkey+cluster://[user:password@]host[:6379],host…                    a cluster; some of its nodes are enough
    valkey+sentinel://[user:password@]host[:26379],host…/name[/database]  the primary that sentinels know by a name

`redis` is the same as `valkey`; `valkeys` and `rediss` speak TLS. User and password are those of the data nodes. They
end at the last `@`, so that a password may hold any character as it is; only `%` is written `%25`. Options follow a
`?`: `tls_ca`, `tls_cert`, `tls_key`, `tls_verify=none`, `sentinel_user`, `sentinel_password`.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn
from urllib.parse import parse_qsl, unquote

from limen.errors import SettingsError
from limen.stores.valkey.endpoint import DEFAULT_PORT, Address, Endpoint, Kind, Target, Tls

__all__ = ["SCHEMES", "parse_endpoint", "parse_target"]

SENTINEL_PORT = 26379
KINDS: dict[str, Kind] = {"": "single", "+cluster": "cluster", "+sentinel": "sentinel"}
SCHEMES = {
    f"{family}{tls}{suffix}": (kind, bool(tls))
    for family in ("valkey", "redis")
    for tls in ("", "s")
    for suffix, kind in KINDS.items()
}
"""What a store URL may begin with: the kind of store, and whether by TLS."""
TLS_OPTIONS = ("tls_ca", "tls_cert", "tls_key", "tls_verify")
SENTINEL_OPTIONS = ("sentinel_user", "sentinel_password")
EXAMPLES: dict[Kind, str] = {
    "single": "write it as valkey://user:password@host:6379/0 (valkeys:// for TLS)",
    "cluster": "write it as valkey+cluster://user:password@host:6379,host:6379 (valkeys+cluster:// for TLS)",
    "sentinel": "write it as valkey+sentinel://user:password@host:26379,host:26379/name/0",
}


class Pieces(NamedTuple):
    """A URL cut apart, with nothing understood yet."""

    kind: Kind
    login: str
    hosts: str
    path: list[str]
    options: dict[str, str]


def parse_target(url: str) -> Target:
    """What a store URL points to.

    Raises:
        SettingsError: says what is wrong and how to write it, without repeating a password.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        raise SettingsError(
            "a store is memory://, valkey://host:6379/0, valkey+cluster://host:6379,… or valkey+sentinel://host:26379,…/name"
            " (redis is the same, valkeys and rediss speak TLS), and this begins with none of these"
        )
    kind, tls = SCHEMES[scheme]
    pieces = _cut(kind, rest)
    addresses = _addresses(pieces)
    login = _login(pieces, addresses[0], _tls(pieces, tls))
    if kind == "sentinel":
        return _behind_sentinels(pieces, addresses, login)
    return Target(kind, tuple(login.at(*address) for address in addresses), login)


def parse_endpoint(url: str) -> Endpoint:
    """The server behind a URL that points to one server.

    Raises:
        SettingsError: as `parse_target`, and for a cluster or sentinels.
    """
    target = parse_target(url)
    if target.kind != "single":
        _refuse("single", f"names a {target.kind}, where one server is asked for")
    return target.login


def _cut(kind: Kind, rest: str) -> Pieces:
    login, _, rest = rest.rpartition("@")
    if "?" in login and ":" not in login:
        _refuse(kind, "has an @ in its options; there it is written %40")
    rest, _, query = rest.partition("?")
    if "#" in rest + query:
        _refuse(kind, "has a # behind the host, which means nothing here")
    hosts, *path = rest.rstrip("/").split("/")
    return Pieces(kind, login, hosts, path, _options(kind, query))


def _options(kind: Kind, query: str) -> dict[str, str]:
    known = (*TLS_OPTIONS, *(SENTINEL_OPTIONS if kind == "sentinel" else ()))
    options: dict[str, str] = {}
    for name, value in parse_qsl(query.replace("+", "%2B"), keep_blank_values=True):
        if name not in known:
            _refuse(kind, f"has the option {name!r}, which is none of {', '.join(known)}")
        if name in options:
            _refuse(kind, f"has the option {name!r} twice")
        options[name] = value
    return options


def _addresses(pieces: Pieces) -> list[Address]:
    default = SENTINEL_PORT if pieces.kind == "sentinel" else DEFAULT_PORT
    addresses = [_address(pieces.kind, host, default) for host in pieces.hosts.split(",")]
    if pieces.kind == "single" and len(addresses) > 1:
        _refuse("single", "names several hosts; for a cluster it begins with valkey+cluster://")
    return addresses


def _address(kind: Kind, text: str, default_port: int) -> Address:
    """`host`, `host:port`, `[::1]` or `[::1]:port`."""
    text = text.strip()
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        if not bracket or colon not in ("", ":"):
            _refuse(kind, "has no readable host and port: an IPv6 address stands in brackets, [::1]:6379")
    else:
        host, colon, port = text.partition(":")
    if not host:
        _refuse(kind, "has no host")
    if colon and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        _refuse(kind, "has no readable host and port: a port is a number from 1 to 65535")
    return Address(host, int(port) if colon else default_port)


def _login(pieces: Pieces, address: Address, tls: Tls | None) -> Endpoint:
    user, _, password = pieces.login.partition(":")
    return Endpoint(*address, _database(pieces), unquote(user) or None, unquote(password) or None, tls)


def _database(pieces: Pieces) -> int:
    path = pieces.path[1:] if pieces.kind == "sentinel" else pieces.path
    number = path[0] if path else "0"
    if len(path) > 1 or not (number.isascii() and number.isdigit()):
        _refuse(pieces.kind, "is not the number of a database in what follows the host")
    if pieces.kind == "cluster" and int(number):
        _refuse("cluster", "names a database; a cluster has only number 0")
    return int(number)


def _tls(pieces: Pieces, tls: bool) -> Tls | None:
    if not tls:
        for name in TLS_OPTIONS:
            if name in pieces.options:
                _refuse(pieces.kind, f"has the option {name!r} but does not speak TLS; begin it with valkeys")
        return None
    verify = pieces.options.get("tls_verify", "full")
    if verify not in ("full", "none"):
        _refuse(pieces.kind, "has a tls_verify that is neither full nor none")
    ca, cert, key = (pieces.options.get(name, "") for name in TLS_OPTIONS[:3])
    if key and not cert:
        _refuse(pieces.kind, "has a tls_key without a tls_cert")
    return Tls(ca, cert, key, verify == "full")


def _behind_sentinels(pieces: Pieces, addresses: list[Address], login: Endpoint) -> Target:
    name = unquote(pieces.path[0]) if pieces.path else ""
    if not name:
        _refuse("sentinel", "lacks the name under which the sentinels know the primary")
    user, password = (pieces.options.get(option) or None for option in SENTINEL_OPTIONS)
    seeds = tuple(Endpoint(*address, 0, user, password, login.tls) for address in addresses)
    return Target("sentinel", seeds, login, name)


def _refuse(kind: Kind, what: str) -> NoReturn:
    raise SettingsError(f"the store URL {what}; {EXAMPLES[kind]}")
