"""Who stands behind a request to the admin API, and what they say about it: what a change is signed with."""

from __future__ import annotations

from limen.admin.callers import READING, Caller, may, needed_role
from limen.admin.records import Signature
from limen.errors import MissingExtra, UsageError

try:
    from fastapi import HTTPException, Request
except ImportError as error:
    raise MissingExtra("the admin API", "service") from error

__all__ = ["CALLER", "ROLE", "caller", "require_role", "role_of", "signature"]

CALLER = "limen.caller"
"""Where the scope of a request holds who was let in."""
ROLE = "x-limen-role"
"""What a route that needs another role than its method says has in its `openapi_extra`."""
LONGEST_REASON = 256
YES, NO = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


def caller(request: Request) -> Caller:
    """Who was let in. Nobody gets as far as a route without it."""
    found = request.scope[CALLER]
    assert isinstance(found, Caller)
    return found


def signature(request: Request) -> Signature:
    """Author and role of the caller; `?reason=` or the field X-Limen-Reason; `?confirm=1`.

    Raises:
        UsageError: the reason is too long or not printable, or `confirm` is neither yes nor no.
    """
    who = caller(request)
    return Signature(who.author, who.role, _reason(request), _confirmed(request))


def require_role(request: Request) -> None:
    """A dependency of the router: the caller may do what this route does, and signs it in a way that can be kept.

    Raises:
        HTTPException: 403, with the role that it takes.
        UsageError: as `signature`.
    """
    who, needed = caller(request), role_of(request.scope["route"], request.method)
    if not may(who.role, needed):
        detail = f"This takes the role {needed}, and {who.author!r} is {who.role}."
        raise HTTPException(403, detail)
    if request.method not in READING:
        signature(request)


def role_of(route: object, method: str) -> str:
    """The role that a route needs."""
    return needed_role(method, (getattr(route, "openapi_extra", None) or {}).get(ROLE))


def _reason(request: Request) -> str:
    reason = request.query_params.get("reason")
    if reason is None:
        reason = _utf8(request.headers.get("x-limen-reason", ""))
    reason = reason.strip()
    if len(reason) > LONGEST_REASON or not reason.isprintable():
        raise UsageError(f"the reason is at most {LONGEST_REASON} printable characters")
    return reason


def _utf8(field: str) -> str:
    """A header field as it was meant: bytes of UTF-8, where they are that."""
    try:
        return field.encode("latin-1").decode()
    except UnicodeError:
        return field


def _confirmed(request: Request) -> bool:
    word = request.query_params.get("confirm", "0").lower()
    if word not in YES | NO:
        raise UsageError("confirm is 1 or 0")
    return word in YES
