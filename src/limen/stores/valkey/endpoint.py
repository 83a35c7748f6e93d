"""Where servers are and how to log in to them: what a store URL says once it is understood."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

__all__ = ["DEFAULT_PORT", "Address", "Endpoint", "Kind", "Target", "Tls"]

DEFAULT_PORT = 6379
Kind = Literal["single", "cluster", "sentinel"]


class Address(NamedTuple):
    """A host and a port. IPv6 is shown in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Tls:
    """How the other side proves who it is, and how we do."""

    ca: str = ""
    """A file with the certificates to trust; empty for those of the system."""
    cert: str = ""
    """Our own certificate, where the server asks for one."""
    key: str = ""
    """Its key; empty when it is in the same file."""
    verify: bool = True
    """False trusts whoever answers."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server. Its text never shows the password."""

    host: str
    port: int = DEFAULT_PORT
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Tls | None = None

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    def at(self, host: str, port: int) -> Endpoint:
        """Another server with the same login."""
        return replace(self, host=host, port=port)

    def __str__(self) -> str:
        return f"valkey{'s' if self.tls else ''}://{self.address}/{self.database}"


@dataclass(frozen=True, slots=True)
class Target:
    """What a store URL points to."""

    kind: Kind
    seeds: tuple[Endpoint, ...]
    """Whom to ask first: the server itself, some nodes of the cluster, or the sentinels."""
    login: Endpoint
    """How to log in to a data node; its address is that of the first seed."""
    name: str = ""
    """Under which name the sentinels know the primary."""

    def __str__(self) -> str:
        scheme = f"valkey{'s' if self.login.tls else ''}"
        if self.kind == "single":
            return str(self.login)
        hosts = ",".join(str(seed.address) for seed in self.seeds)
        return f"{scheme}+{self.kind}://{hosts}" + (f"/{self.name}" if self.name else "")
