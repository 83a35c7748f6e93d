"""Whether, and how, gateways may borrow tokens under a rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from limen.core.algorithm import AnyLimit
from limen.core.concurrency import SlotLimit
from limen.core.lease import LeaseTerms
from limen.core.limit import Limit
from limen.errors import UsageError
from limen.rules.duration import duration_s

__all__ = ["check_lendable", "lease_from_value"]

VERIFIED = ("client", "user", "plan")
"""What a caller does not choose freely: a flood of made-up keys would borrow for each of them."""


def lease_from_value(value: object) -> LeaseTerms | None:
    """From `off`, `auto` or `{size: 50, ttl: 1s}`.

    Raises:
        UsageError: it is something else.
    """
    if value == "off":
        return None
    if value == "auto":
        return LeaseTerms()
    if not isinstance(value, Mapping):
        raise UsageError(f"{value!r} is not supported; write off, auto or {{size: 50, ttl: 1s}}")
    unknown = set(value) - {"size", "ttl"}
    if unknown:
        raise UsageError(f"lease has no field {min(map(str, unknown))!r}; it knows size and ttl")
    if "size" not in value:
        raise UsageError("lease has no size; write {size: 50, ttl: 1s}, or auto")
    return LeaseTerms(_size(value["size"]), **_ttl(value))


def check_lendable(lease: LeaseTerms, limit: AnyLimit | SlotLimit | None, key_by: Sequence[str]) -> None:
    """Refuse a lease that the rule cannot give.

    Raises:
        UsageError: says why, and what to write instead.
    """
    if limit is None or not limit.capacity:
        return
    if not isinstance(limit, Limit):
        raise UsageError(f"a {limit.algorithm} lends nothing; use a token_bucket, or write lease: off")
    if not limit.refills:
        raise UsageError("what a crashed gateway had borrowed would never come back to this quota; write lease: off")
    if key_by and not set(key_by) & set(VERIFIED):
        raise UsageError(f"anybody can make up {key_by[0]}; leases need a key_by with {' or '.join(VERIFIED)}")
    most = lease.most(limit.capacity)
    if lease.size is not None and lease.size > most:
        raise UsageError(
            f"a lease of {lease.size} is more than a tenth of the capacity {limit.capacity}; "
            f"write size: {most} or less, or lease: auto"
        )


def _size(value: object) -> int:
    if type(value) is not int:
        raise UsageError(f"the size of a lease is a whole number of tokens, not {value!r}")
    return value


def _ttl(value: Mapping[Any, Any]) -> dict[str, int]:
    if "ttl" not in value:
        return {}
    seconds = duration_s(value["ttl"])
    if not isfinite(seconds):
        raise UsageError(f"a lease lasts 0.1 to 2 seconds, not {seconds}")
    return {"ttl_us": round(seconds * 1_000_000)}
