"""The outcome of one check: a word, a sentence, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

__all__ = ["Finding", "Status", "fail", "ok", "unreachable", "warn", "worst"]

Status = Literal["ok", "warn", "fail"]
ORDER: tuple[Status, ...] = ("ok", "warn", "fail")


class Finding(NamedTuple):
    """What a check found.

    `warn` is a danger that lies ahead: limits will mean less than they say. `fail` is one that is there: decisions
    are made without the store, or not at all.
    """

    check: str
    status: Status
    sentence: str
    advice: str = ""
    """What to do; empty when there is nothing to do."""
    about: str = ""
    """The server, where there may be several."""
    unreachable: bool = False
    """Nobody answers there; what is wrong is not known."""

    def __str__(self) -> str:
        about = f"{self.about} " if self.about else ""
        advice = f"; {self.advice}" if self.advice else ""
        return f"{self.status:4}  {self.check:11}  {about}{self.sentence}{advice}"


def ok(check: str, sentence: str, advice: str = "") -> Finding:
    return Finding(check, "ok", sentence, advice)


def warn(check: str, sentence: str, advice: str) -> Finding:
    return Finding(check, "warn", sentence, advice)


def fail(check: str, sentence: str, advice: str) -> Finding:
    return Finding(check, "fail", sentence, advice)


def unreachable(check: str, sentence: str, advice: str) -> Finding:
    return Finding(check, "fail", sentence, advice, unreachable=True)


def worst(findings: Iterable[Finding]) -> Status:
    """How it is as a whole."""
    return max((finding.status for finding in findings), key=ORDER.index, default="ok")
