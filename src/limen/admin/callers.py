"""Who asks the admin API, and what each role may do. Pure."""

from __future__ import annotations

from typing import NamedTuple

from limen.errors import UsageError

__all__ = [
    "APPROVER", "BOOTSTRAP", "EDITOR", "LOCAL", "READING", "RESERVED", "ROLES", "VIEWER", "Caller", "NotBelieved",
    "higher", "may", "needed_role", "role_named",
]  # fmt: skip

VIEWER, EDITOR, APPROVER = ROLES = ("viewer", "editor", "approver")
"""From the least to the most: each may do what those before it may."""
BOOTSTRAP = "admin-token"
"""The author of what is done with the token of the settings."""
RESERVED = frozenset({"local", "limen", "watch", "guard", "unknown", BOOTSTRAP})
"""Authors that are no person and no robot of the operator: nobody gets a token of such a name."""
READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Caller(NamedTuple):
    """Somebody who was let in."""

    author: str
    role: str
    ambient: bool = False
    """Known by where the request comes from, not by a secret in it: a page in a browser could have sent it as well."""


class NotBelieved(UsageError):
    """The request says who sends it, and cannot be believed.

    Attributes:
        status: 400 when it can be read in several ways, else 401.
    """

    def __init__(self, message: str, status: int = 401) -> None:
        super().__init__(message)
        self.status = status


LOCAL = Caller("local", APPROVER, ambient=True)
"""Whoever reaches a service that listens on its own machine only and has no tokens."""


def may(role: str, needed: str) -> bool:
    """Whether a role is enough."""
    return ROLES.index(role) >= ROLES.index(needed)


def higher(one: str, other: str) -> str:
    """The role that may do more."""
    return max(one, other, key=ROLES.index)


def needed_role(method: str, wanted: str | None = None) -> str:
    """The role that a route needs: what it asks for, else a viewer to read and an editor to change."""
    return wanted or (VIEWER if method in READING else EDITOR)


def role_named(name: object) -> str:
    """
    Raises:
        UsageError: no such role.
    """
    if not isinstance(name, str) or name not in ROLES:
        raise UsageError(f"{name!r} is not a role; there are {', '.join(ROLES)}")
    return name
