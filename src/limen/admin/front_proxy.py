"""A front proxy that has logged somebody in and says who it is, in a header field. Pure.

The field is believed from listed addresses only, by the peer on the socket: whoever else can reach the port could
write it too. One who sends it from elsewhere is refused, so that nobody mistakes it for a way in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from limen.admin.callers import APPROVER, EDITOR, RESERVED, VIEWER, Caller, NotBelieved, higher
from limen.rules.client_ip import Network, parse_address

__all__ = ["FrontProxy"]

LONGEST_NAME = 64

Lines = Callable[[str], list[str]]
"""The values of a header field, one for each line of the request that has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxy:
    """Who may say who somebody is, and how.

    Attributes:
        header: the field that holds the name.
        sources: networks of the proxy.
        role: of everybody whom the proxy names.
        groups_header: a field that holds groups with commas between; None reads none.
        editors, approvers: groups whose members have that role at least.
    """

    header: str
    sources: tuple[Network, ...]
    role: str = VIEWER
    groups_header: str | None = None
    editors: frozenset[str] = field(default=frozenset())
    approvers: frozenset[str] = field(default=frozenset())

    def identify(self, peer: str | None, lines: Lines) -> Caller | None:
        """Who it is; None when the request does not say so.

        Args:
            peer: the address on the socket; None for a Unix socket.

        Raises:
            NotBelieved: it comes from elsewhere, more than one is named, or nobody can be called so.
        """
        names = lines(self.header)
        if not names:
            return None
        if not self._is_proxy(peer):
            raise NotBelieved(f"{self.header} is believed from the addresses of the front proxy only.")
        if len(names) > 1 or "," in names[0]:
            raise NotBelieved(f"{self.header} names more than one; it holds one name.", 400)
        name = names[0].strip()
        if not name:
            return None
        if not name.isprintable() or len(name) > LONGEST_NAME or name in RESERVED:
            raise NotBelieved(f"{self.header} holds no name that somebody can have here.")
        return Caller(name, self._role(lines), ambient=True)

    def _is_proxy(self, peer: str | None) -> bool:
        address = parse_address(peer) if peer else None
        return address is not None and any(address in network for network in self.sources)

    def _role(self, lines: Lines) -> str:
        if self.groups_header is None:
            return self.role
        groups = {group.strip() for line in lines(self.groups_header) for group in line.split(",")}
        if groups & self.approvers:
            return APPROVER
        return higher(self.role, EDITOR) if groups & self.editors else self.role
