"""What an operator, or a metering system, writes about single clients, checked. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, Literal, NamedTuple, TypeVar

from limen.admin.clients import client_name
from limen.admin.ends import LAST_S, lasting, still_to_come
from limen.errors import Problem, RuleError, UsageError
from limen.rules.networks import Networks

__all__ = [
    "MOST_FLAGS", "BlockOrder", "FlagOrder", "OverrideOrder", "block_from", "flag_from", "flags_from", "override_from",
    "plan_name",
]  # fmt: skip

T = TypeVar("T")

MOST_FLAGS = 1000
"""In one request."""
LONGEST_REASON = 256
LONGEST_WAIT_S = 366 * 86_400
BLOCK_EXAMPLE = '{"ip": "192.0.2.0/24", "reason": "scraping", "for": "1h"}'
FLAG_EXAMPLE = '{"over_quota": true, "for": "1d"}'
OVERRIDE_EXAMPLE = '{"limit": "500/minute", "for": "7d"}'


class BlockOrder(NamedTuple):
    kind: Literal["block", "allow"]
    by: Literal["client", "user", "ip"]
    name: str
    until: int | None
    reason: str


class FlagOrder(NamedTuple):
    client: str
    over_quota: bool
    until: int | None
    retry_after: int | None
    reason: str


class OverrideOrder(NamedTuple):
    limit: str
    until: int | None
    reason: str


def block_from(document: object, now: float) -> BlockOrder:
    """The fields of `{client | user | ip, kind, reason, for | until}`; without an end it lasts until it is taken away.

    Args:
        now: Unix time in seconds.

    Raises:
        RuleError: every problem, each naming its field.
    """
    read = _Reading(document, "a block", ("client", "user", "ip", "kind", "reason", "for", "until"), BLOCK_EXAMPLE)
    named = [by for by in ("client", "user", "ip") if by in read.fields]
    if len(named) != 1:
        read.problems.append(Problem("name one of client, user and ip", field=named[1] if named else "client"))
    by: Any = named[0] if named else "client"
    name = read(by, network_name if by == "ip" else client_name_of) if named else ""
    kind = read("kind", _kind, "block")
    order = BlockOrder(kind, by, name, read.end(now), read("reason", _reason, ""))
    read.finish()
    return order


def flag_from(document: object, client: str, now: float) -> FlagOrder:
    """The fields of `{over_quota, for | until, retry_after, reason}` for one client.

    Raises:
        RuleError: every problem, each naming its field.
    """
    read = _Reading(document, "a flag", ("over_quota", "for", "until", "retry_after", "reason"), FLAG_EXAMPLE)
    over = read("over_quota", _truth)
    wait = read("retry_after", _wait, None)
    order = FlagOrder(client, over, read.end(now), wait, read("reason", _reason, ""))
    read.finish()
    return order


def flags_from(document: object, now: float) -> tuple[FlagOrder, ...]:
    """The flags of many clients: `{"flags": [{"client": …, "over_quota": …, …}]}`; the last one of a client counts.

    Raises:
        RuleError: every problem, each naming its place.
    """
    listed = document.get("flags") if isinstance(document, Mapping) and len(document) == 1 else None
    if not isinstance(listed, list) or not 1 <= len(listed) <= MOST_FLAGS:
        example = '{"flags": [{"client": "acme", "over_quota": true, "for": "1d"}]}'
        raise RuleError([Problem(f"write {example}, with 1 to {MOST_FLAGS} of them")])
    problems: list[Problem] = []
    orders: dict[str, FlagOrder] = {}
    for index, each in enumerate(listed):
        try:
            order = _flag_of(each, now)
            orders[order.client] = order
        except RuleError as error:
            problems += [problem._replace(field=f"flags[{index}].{problem.field or ''}") for problem in error.problems]
    if problems:
        raise RuleError(problems)
    return tuple(orders.values())


def override_from(document: object, now: float) -> OverrideOrder:
    """The fields of `{limit, for | until, reason}`.

    Raises:
        RuleError: every problem, each naming its field.
    """
    read = _Reading(document, "a limit of its own", ("limit", "for", "until", "reason"), OVERRIDE_EXAMPLE)
    order = OverrideOrder(read("limit", _limit), read.end(now), read("reason", _reason, ""))
    read.finish()
    return order


def plan_name(name: str) -> str:
    """
    Raises:
        UsageError: not a name for a plan.
    """
    if not 1 <= len(name) <= 64 or not name.isprintable():
        raise UsageError("the name of a plan is 1 to 64 printable characters")
    return name


def client_name_of(value: object) -> str:
    """
    Raises:
        UsageError: not a name for a client or a user.
    """
    if not isinstance(value, str):
        raise UsageError("is needed, as text")
    return client_name(value)


def network_name(value: object) -> str:
    """The one spelling of a network.

    Raises:
        UsageError: it is none.
    """
    if not isinstance(value, str) or len(value) > LONGEST_REASON:
        raise UsageError("write an address or a network, such as 192.0.2.7 or 2001:db8::/32")
    return str(Networks.parse(value))


class _Reading:
    """Reads one field after the other, so that one refusal names every problem."""

    def __init__(self, document: object, what: str, known: tuple[str, ...], example: str) -> None:
        if not isinstance(document, Mapping):
            raise RuleError([Problem(f"{what} is an object such as {example}")])
        self.fields = document
        hint = f"there is no such field; {what} has {', '.join(known)}"
        self.problems = [Problem(hint, field=str(name)) for name in document if name not in known]

    def __call__(self, name: str, check: Callable[[object], T], otherwise: Any = ...) -> T:
        value = self.fields.get(name)
        if value is None and otherwise is not ...:
            return otherwise  # type: ignore[no-any-return]
        try:
            return check(value)
        except UsageError as error:
            self.problems.append(Problem(str(error), field=name))
            return None  # type: ignore[return-value]

    def end(self, now: float) -> int | None:
        """When it ends, in whole seconds; None: never."""
        if self.fields.get("for") is not None and self.fields.get("until") is not None:
            self.problems.append(Problem("write either for or until", field="until"))
            return None
        lasts = self("for", lasting, None)
        if lasts is not None:
            return min(LAST_S, ceil(now + lasts))
        return self("until", lambda value: still_to_come(value, now), None)

    def finish(self) -> None:
        if self.problems:
            raise RuleError(self.problems)


def _flag_of(document: object, now: float) -> FlagOrder:
    if not isinstance(document, Mapping):
        raise RuleError([Problem(f'a flag is an object such as {{"client": "acme", {FLAG_EXAMPLE[1:]}')])
    rest = {name: value for name, value in document.items() if name != "client"}
    try:
        client = client_name_of(document.get("client"))
    except UsageError as error:
        raise RuleError([Problem(str(error), field="client")]) from error
    return flag_from(rest, client, now)


def _kind(value: object) -> Any:
    if value not in ("block", "allow"):
        raise UsageError(f"write block or allow, not {value!r:.40}")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError("is needed, as true or false")
    return value


def _wait(value: object) -> int:
    if type(value) is not int or not 1 <= value <= LONGEST_WAIT_S:
        raise UsageError(f"is a whole number of seconds, 1 to {LONGEST_WAIT_S:,}")
    return value


def _limit(value: object) -> str:
    if type(value) is int and value == 0:
        return "0/second"
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_REASON:
        raise UsageError("is needed, as text such as 500/minute, or unlimited")
    return value


def _reason(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_REASON or not value.isprintable():
        raise UsageError(f"is at most {LONGEST_REASON} printable characters")
    return value
