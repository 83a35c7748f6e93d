"""The audit log: who did what, when and why, each row sealed with the one before it. Pure.

The hash of a row is SHA-256 over all its other fields as canonical JSON (keys sorted, no spaces, ASCII), the hash of
the row before among them. So a row that was changed, taken out or put in between breaks the chain from there on. Rows
cut off the end are found by whoever has noted the last hash elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

__all__ = ["BEGINNING", "AuditEntry", "Broken", "Chain", "canonical", "seal"]

BEGINNING = "0" * 64
"""What the first row has in the place of the hash before it."""


class AuditEntry(NamedTuple):
    """One row."""

    seq: int
    """1, 2, 3 … without a gap."""
    at: int
    """Unix time in seconds."""
    author: str
    role: str
    action: str
    """What was done, such as `rule.put`."""
    subject: str
    """To what, such as `rule:search`."""
    detail: str
    """JSON text: the reason, and what belongs to the action."""
    previous: str
    """The hash of the row before, in hex."""
    hash: str


class Broken(NamedTuple):
    """The first row that is not as it was written."""

    seq: int
    why: str


def canonical(value: object) -> str:
    """The one JSON text for a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def seal(entry: AuditEntry) -> AuditEntry:
    """The row with its hash."""
    return entry._replace(hash=_hash(entry))


def _hash(entry: AuditEntry) -> str:
    fields = entry._asdict()
    del fields["hash"]
    return sha256(canonical(fields).encode()).hexdigest()


class Chain:
    """Follows rows in the order of their numbers.

    Attributes:
        last: the row that was looked at last and is right; None before the first.
        broken: the first row that is wrong, if there was one.
    """

    def __init__(self) -> None:
        self.last: AuditEntry | None = None
        self.broken: Broken | None = None

    @property
    def length(self) -> int:
        return self.last.seq if self.last else 0

    def follow(self, entries: Iterable[AuditEntry]) -> bool:
        """Look at further rows; whether all are right. Nothing is looked at behind the first that is not."""
        for entry in entries:
            if self.broken is not None:
                break
            why = self._wrong(entry)
            if why:
                self.broken = Broken(entry.seq, why)
            else:
                self.last = entry
        return self.broken is None

    def _wrong(self, entry: AuditEntry) -> str:
        if entry.seq != self.length + 1:
            return f"row {self.length + 1} is missing"
        if entry.previous != (self.last.hash if self.last else BEGINNING):
            return "it does not follow the row before it"
        if entry.hash != _hash(entry):
            return "it is not as it was written"
        return ""
