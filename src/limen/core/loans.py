"""What is on loan of one bucket, and to whom: the books that a store keeps. `scripts/lease.lua` keeps the same.

    holder   which gateway;  number   grows with each of its questions, so that a question that arrives late, after a
    newer one of the same gateway, changes nothing;  tokens   what it may hold at most;  until_us   when that lapses

A gateway says how many of its tokens it has not spent yet (`left`), and how many it gives back (`back`). It is believed
only as far as the books go: what has lapsed, or was never lent, is neither kept nor given back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["MOST_HOLDERS", "Claim", "Loan", "Loans", "Settled", "settle"]

MOST_HOLDERS = 128
"""How many gateways can have a lease on one bucket at the same time."""


class Loan(NamedTuple):
    """What one gateway holds."""

    number: int
    tokens: int
    until_us: int


Loans = Mapping[bytes, Loan]
"""By holder."""


class Claim(NamedTuple):
    """What a gateway says of its lease."""

    holder: bytes
    number: int
    left: int
    """Whole tokens that it has not spent and means to keep."""
    back: int
    """Whole tokens that it gives back."""
    most: int
    """Whole tokens that may be on loan, all gateways together."""
    ttl_us: int


class Settled(NamedTuple):
    """The books once a claim is settled."""

    others: Loans
    """What all other gateways hold."""
    kept: int
    """Of `left`, what is good and lasts as long as a new lease."""
    back: int
    """Of `back`, what returns into the bucket."""
    room: int
    """How many tokens more may be lent to this gateway."""
    late: bool
    """A newer question of this gateway was answered before: nothing may change."""


def settle(loans: Loans, claim: Claim, now_us: int) -> Settled:
    """Drop what has lapsed, believe a gateway as far as the books go, and see how much may be lent."""
    longest_us = now_us + claim.ttl_us  # the clock may have stepped back: nobody holds for longer than from now
    valid = {
        holder: loan._replace(until_us=min(loan.until_us, longest_us))
        for holder, loan in loans.items()
        if loan.until_us > now_us
    }
    mine = valid.pop(claim.holder, None)
    if mine is not None and mine.number >= claim.number:
        return Settled({**valid, claim.holder: mine}, 0, 0, 0, True)
    lent = mine.tokens if mine is not None else 0
    kept = min(claim.left, lent)
    back = min(claim.back, lent - kept)
    on_loan = sum(loan.tokens for loan in valid.values()) + kept
    room = max(0, claim.most - on_loan) if len(valid) < MOST_HOLDERS else 0
    return Settled(valid, kept, back, room, False)
