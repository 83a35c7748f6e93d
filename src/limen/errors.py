"""Every error that Limen raises, ordered by what the caller can do about it.

    LimenError
    ├── UsageError           mend the call: a cost, a name, a setting      (also a ValueError)
    │   ├── RuleError        mend the rules: every problem, with its place
    │   ├── SettingsError    mend a flag, a LIMEN_* variable or limen.toml
    │   └── MissingExtra     install the named extra                       (also an ImportError)
    ├── Unavailable          wait or look elsewhere: something we depend on does not answer
    │   ├── StoreError       the counter store: down, late, or it refused the command
    │   └── RulesUnavailable the rules database
    ├── Conflict             read again, then repeat: somebody else changed it meanwhile
    │   └── GuardRefused     look at what it would do; confirm it, or let a second person approve it
    └── RateLimited          a denial, for those who asked for an exception

A denial is a value (`Decision`), never an exception, unless `raise_if_denied()` was called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from limen.core.decision import Decision

__all__ = [
    "Conflict",
    "GuardRefused",
    "LimenError",
    "MissingExtra",
    "Problem",
    "RateLimited",
    "RuleError",
    "RulesUnavailable",
    "SettingsError",
    "StoreError",
    "Unavailable",
    "UsageError",
]


class LimenError(Exception):
    """Anything that Limen raises."""


class UsageError(LimenError, ValueError):
    """The call itself is wrong; repeating it unchanged fails again."""


class Problem(NamedTuple):
    """One thing that is wrong with a rule document, where, and what to write instead."""

    message: str
    rule: str | None = None
    field: str | None = None
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        name = f"rule {self.rule!r}" if self.rule else ""
        if self.field:
            name = f"{name}, field {self.field!r}" if name else f"field {self.field!r}"
        return ": ".join(part for part in (place, name, self.message) if part)


LONGEST_MESSAGE = 500
LONGEST_NAME = 100


def _shortened(problem: Problem) -> Problem:
    """The same without the middle of what somebody wrote at length: answers and log lines repeat it."""
    message, name, field = problem.message, problem.rule, problem.field
    if len(message) > LONGEST_MESSAGE:
        message = f"{message[: LONGEST_MESSAGE // 2]} … {message[-LONGEST_MESSAGE // 2 :]}"
    return problem._replace(message=message, rule=name and name[:LONGEST_NAME], field=field and field[:LONGEST_NAME])


class RuleError(UsageError):
    """A rule document was refused as a whole.

    Attributes:
        problems: everything that is wrong with it, in document order.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        problems = tuple(map(_shortened, problems))
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class SettingsError(UsageError):
    """A setting has a value that cannot work."""


class MissingExtra(UsageError, ImportError):
    """An optional part was asked for and its libraries are not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional part of Limen: pip install 'limen[{extra}]'")


class Unavailable(LimenError):
    """Something that Limen depends on does not answer."""


class StoreError(Unavailable):
    """The counter store did not decide.

    Attributes:
        kind: a word, good for a metric's label:
            `down`           no connection, or the server has stopped to answer
            `timeout`        no answer within the deadline
            `overload`       too many questions in flight
            `loading`        the server is loading its data
            `busy`           a script does not end
            `master_down`    a replica without its primary
            `cluster_down`   no node of the cluster decides about this slot
            `read_only`      a replica, where a primary was
            `moved`          the slot is at another node, or on its way there
            `full`           the memory of the server is full
            `no_script`      the server forgets the script each time it is sent
            `no_permission`  the ACL of the server's user lacks something
            `login`          the server does not accept user and password
            `refused`        any other error of the server, and replies that nobody understands
            `drill`          nothing was asked: an outage is rehearsed
            `settling`       nothing was asked: the store has just returned, and others may not have told it everything
        shard: `host:port` of the server that did not decide; empty when nobody knows.
    """

    def __init__(self, message: str, kind: str = "down", shard: str = "") -> None:
        super().__init__(message, kind, shard)
        self.kind = kind
        self.shard = shard

    def __str__(self) -> str:
        return str(self.args[0])


class RulesUnavailable(Unavailable):
    """The rules database does not answer, or holds what cannot be read."""


class Conflict(LimenError):
    """The thing to change is no longer what the caller saw.

    Attributes:
        current: the version that is there now, or None when nothing is.
        members: what else is known, as JSON: `seen`, the version that the caller saw; `diff`, what others did since.
    """

    def __init__(self, message: str, current: int | None) -> None:
        super().__init__(message, current)
        self.current = current
        self.members: Mapping[str, Any] = {}

    def __str__(self) -> str:
        return str(self.args[0])


class GuardRefused(Conflict):
    """A change is dangerous. Nothing was changed.

    Attributes:
        preview: what it would do, why it is held up, and what to do; JSON.
    """

    def __init__(self, message: str, preview: Mapping[str, Any]) -> None:
        super().__init__(message, None)
        self.preview = preview


class RateLimited(LimenError):
    """A denied decision, raised by `Decision.raise_if_denied()`.

    Attributes:
        decision: the whole answer.
        retry_after: seconds until the same call would pass, or None for never.
        limit, remaining, rule: as in the decision.
    """

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision)
        self.decision = decision

    @property
    def retry_after(self) -> float | None:
        milliseconds = self.decision.retry_after_ms
        return None if milliseconds is None else milliseconds / 1000

    @property
    def limit(self) -> int | None:
        return self.decision.limit

    @property
    def remaining(self) -> int | None:
        return self.decision.remaining

    @property
    def rule(self) -> str | None:
        return self.decision.rule

    def __str__(self) -> str:
        wait = "it can never pass" if self.retry_after is None else f"try again in {self.retry_after:g} s"
        return f"refused by rule {self.rule!r} ({self.decision.reason}): {wait}"
