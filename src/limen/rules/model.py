"""A rule: what an operator writes, checked and compiled once, then only read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from fractions import Fraction
from typing import Any, Literal, TypeVar
from zlib import crc32

from limen.core.algorithm import AnyLimit
from limen.core.carry import CARRY_OVERS, Carry, CarryOver
from limen.core.concurrency import SlotLimit
from limen.core.decision import Policy
from limen.core.lease import LeaseTerms
from limen.core.limit import Limit
from limen.errors import Problem, RuleError, UsageError
from limen.rules.cost import Cost, check_affordable, cost_from_value
from limen.rules.key import KeyFunction, key_function
from limen.rules.lease import check_lendable, lease_from_value
from limen.rules.limit_text import UNLIMITED, check_capacity, check_refill, limit_from_text
from limen.rules.match import Match, match_from_mapping
from limen.rules.request import Request

__all__ = ["Rule"]

T = TypeVar("T")
Mode = Literal["enforce", "shadow", "off"]
OnFailure = Literal["open", "closed"]

ALGORITHMS = ("token_bucket", "fixed_window", "sliding_window", "sliding_log", "concurrency")
ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
MOST_PARTS = 16
"""Of a key: more would take longer than the store does."""


class Rule:
    """One limit: which requests it covers, what it counts them by, and how much they may do.

    Args:
        id: `[a-z0-9][a-z0-9._-]{0,62}`.
        match: `{methods, path, host, plan, client, ip, header}`; everything given must hold.
        key_by: `client`, `user`, `ip` (IPv6 by its /64; `ip/48` by its /48), `plan`, `host`, `path.NAME`,
            `header.NAME`; several make one key, none is one bucket for all.
        algorithm: `token_bucket`, `fixed_window`, `sliding_window`, `sliding_log` or `concurrency`; by default what
            the limit says, and `token_bucket` when it does not.
        limit: `"100/minute"`, `"20/second burst 100"`, `"100000/month Europe/Berlin"`, `"10 concurrent"`,
            `"unlimited"`; or give
        capacity, refill_per_sec: whole tokens, and tokens per second. A refill of 0 is a quota that is spent once.
        cost: whole tokens, or `{default: 1, when: [{path: /v1/search/deep, cost: 10}]}`. 0 looks without spending.
        on_failure: `open` (a local share of the limit) or `closed` (503) while the store cannot answer. The default is
            `open`; rules with the tag `auth` are closed and cannot be open: an outage must let nobody guess passwords.
        mode: `enforce`, `shadow` (evaluate and report) or `off`.
        lease: `off`, `auto` (gateways borrow tokens for clients that ask often) or `{size: 50, ttl: 1s}`.
        rollout: per cent of keys that the rule covers, stable by key.
        candidate: a limit to try beside this one, on the same requests and with buckets of its own; it stops nobody.
        carry_over: what clients have left when the limit changes: `as-is`, `proportional`, `additive` or `reset`.
        colocate: a label; rules that share one are decided in one step, whatever they are keyed by.
        tags: for people, but for `auth` (see `on_failure`).
        public_name: for people; clients see the public name (by default the id).

    Raises:
        RuleError: with every problem, each naming its field.
    """

    __slots__ = (
        "_documented", "algorithm", "candidate", "carry", "carry_over", "colocate", "cost", "id", "key", "key_by",
        "lease", "limit", "match", "mode", "on_failure", "policy", "public_name", "rollout", "tags",
    )  # fmt: skip

    id: str
    match: Match
    key_by: tuple[str, ...]
    key: KeyFunction
    algorithm: str
    limit: AnyLimit | SlotLimit | None
    cost: Cost
    policy: Policy | None
    lease: LeaseTerms | None
    on_failure: OnFailure
    mode: Mode
    candidate: AnyLimit | None
    carry_over: CarryOver
    carry: Carry | None
    """How buckets become those of this limit, while they do; given by whoever knows the limit before."""

    def __init__(
        self,
        id: str,  # noqa: A002 - what operators call it
        *,
        match: Mapping[str, Any] | None = None,
        key_by: Sequence[str] = ("client",),
        algorithm: str | None = None,
        limit: str | None = None,
        capacity: int | None = None,
        refill_per_sec: float | Fraction | None = None,
        cost: int | Mapping[str, Any] = 1,
        on_failure: OnFailure | None = None,
        mode: Mode = "enforce",
        rollout: int = 100,
        candidate: str | None = None,
        carry_over: CarryOver = "as-is",
        lease: str | Mapping[str, Any] = "off",
        regions: str = "local",
        colocate: str | None = None,
        tags: Sequence[str] = (),
        public_name: str | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        self._documented = _documented(given)
        attempt = _Attempts(id)
        self.id = attempt("id", _identifier, id, "invalid")
        self.match = attempt("match", match_from_mapping, {} if match is None else match, Match())
        self.key_by = attempt("key_by", _key_by, key_by, ())
        self.key = attempt("key_by", lambda parts: key_function(parts, self.match.path), self.key_by, _no_key)
        named = attempt("algorithm", _one_of(*ALGORITHMS, None), algorithm, None)
        self.limit = _limit(attempt, named, limit, capacity, refill_per_sec)
        self.algorithm = algorithm_of(self.limit)
        self.cost = attempt("cost", cost_from_value, cost, Cost())
        named_failure = attempt("on_failure", _one_of("open", "closed", None), on_failure, None)
        self.mode = attempt("mode", _one_of("enforce", "shadow", "off"), mode, "enforce")
        self.rollout = attempt("rollout", _per_cent, rollout, 100)
        self.tags = attempt("tags", _texts, tags, ())
        self.on_failure = attempt("on_failure", lambda named: _failing(named, self.tags), named_failure, "closed")
        self.public_name = self.id if public_name is None else attempt("public_name", _public_name, public_name, "")
        self.lease = attempt("lease", lease_from_value, lease, None)
        attempt("regions", _one_of("local"), regions, "local")
        self.colocate = attempt("colocate", _label, colocate, "")
        self.candidate = attempt("candidate", lambda text: _candidate(text, named, self.limit), candidate, None)
        self.carry_over = attempt("carry_over", _one_of(*CARRY_OVERS), carry_over, "as-is")
        self.carry = None
        if isinstance(self.limit, SlotLimit):
            attempt("match", _asked_by_name, self.match, None)
            attempt("key_by", _one_name, self.key_by, None)
        elif not attempt.problems:
            attempt("cost", lambda limit: check_affordable(self.cost, limit), self.limit, None)
            attempt("candidate", lambda limit: check_affordable(self.cost, limit), self.candidate, None)
        if self.lease is not None and not attempt.problems:
            attempt("lease", lambda lease: check_lendable(lease, self.limit, self.key_by), self.lease, None)
        if attempt.problems:
            raise RuleError(attempt.problems)
        self.policy = _policy(self.public_name, self.limit)

    def cost_of(self, request: Request, segments: Sequence[str]) -> int:
        """Tokens that `request`, with the segments of its canonical path, spends under this rule."""
        for special in self.cost.special:
            path = special.match.path
            if (path is None or path.matches(segments)) and special.match.holds(request):
                return special.cost
        return self.cost.default

    def covers_key(self, identity: str) -> bool:
        """Whether the rollout has reached this key: stable, and growing with the percentage."""
        return self.rollout == 100 or crc32(f"{self.id} {identity}".encode(errors="surrogatepass")) % 100 < self.rollout

    def carried_by(self, carry: Carry | None) -> Rule:
        """The same rule, to whose limit buckets are converted like that."""
        if carry == self.carry:
            return self
        rule = copy(self)
        rule.carry = carry
        return rule

    def to_document(self) -> dict[str, Any]:
        """The rule as it was written, without defaults: what files and the admin API hold."""
        return dict(self._documented)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and self._documented == other._documented

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"Rule({', '.join(f'{name}={value!r}' for name, value in self._documented.items())})"


class _Attempts:
    """Tries each field, so that one refusal lists every problem of a rule and not only the first."""

    def __init__(self, rule: object) -> None:
        self.rule = str(rule)
        self.problems: list[Problem] = []

    def __call__(self, field: str, make: Callable[[Any], T], value: Any, otherwise: Any) -> T:
        try:
            return make(value)
        except UsageError as error:
            self.problems.append(Problem(str(error), self.rule, field))
            return otherwise  # type: ignore[no-any-return]


AUTH = "auth"
"""Marks rules that keep people from guessing: passwords, one-time codes."""

DEFAULTS: Mapping[str, Any] = {
    "match": None, "algorithm": None, "limit": None, "capacity": None, "refill_per_sec": None, "cost": 1,
    "on_failure": "open", "mode": "enforce", "rollout": 100, "candidate": None, "carry_over": "as-is", "lease": "off",
    "regions": "local", "colocate": None, "tags": (), "public_name": None,
}  # fmt: skip


def _documented(given: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in given.items() if name not in DEFAULTS or value not in (None, DEFAULTS[name])}
    for name in ("key_by", "tags"):
        if isinstance(kept.get(name), tuple):
            kept[name] = list(kept[name])
    if isinstance(kept.get("refill_per_sec"), Fraction):
        kept["refill_per_sec"] = float(kept["refill_per_sec"])
    return kept


def _failing(named: OnFailure | None, tags: Sequence[str]) -> OnFailure:
    """What happens to a rule with these tags while the store cannot answer."""
    if AUTH not in tags:
        return named or "open"
    if named == "open":
        raise UsageError(
            f"rules with the tag {AUTH!r} are closed while the store is away; drop the tag or on_failure: open"
        )
    return "closed"


def algorithm_of(limit: AnyLimit | SlotLimit | None) -> str:
    """What a rule calls the algorithm of a limit."""
    if limit is None:
        return "token_bucket"
    return "fixed_window" if limit.algorithm == "calendar_window" else limit.algorithm


def _policy(name: str, limit: AnyLimit | SlotLimit | None) -> Policy | None:
    if limit is None:
        return None
    return Policy(name, limit.capacity, None if isinstance(limit, SlotLimit) else limit.window_s)


def _one_name(key_by: Sequence[str]) -> None:
    if len(key_by) > 1:
        raise UsageError("a slot is asked for by one name, limiter.slot(client, rule); give key_by one part or none")


def _asked_by_name(match: Match) -> None:
    if match.document:
        raise UsageError("a slot is asked for by name, limiter.slot(client, rule); leave the match out")


def _no_key(request: Request, segments: Sequence[str]) -> str:
    raise AssertionError("a refused rule is never asked for a key")


def _identifier(text: object) -> str:
    if not isinstance(text, str) or not ID.fullmatch(text):
        raise UsageError(f"{text!r} is not an id: use 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a-z or 0-9")
    return text


def _key_by(parts: object) -> tuple[str, ...]:
    if isinstance(parts, str) or not isinstance(parts, Sequence):
        raise UsageError(f"key_by is a list such as [client], not {parts!r}")
    if len(parts) > MOST_PARTS:
        raise UsageError(f"key_by has {len(parts)} parts, which every request waits for; {MOST_PARTS} are the most")
    return tuple(parts)


def _limit(
    attempt: _Attempts, algorithm: str | None, text: object, capacity: object, refill_per_sec: object
) -> AnyLimit | SlotLimit | None:
    if text is not None or (capacity is None and refill_per_sec is None):
        if capacity is not None or refill_per_sec is not None:
            return attempt("limit", _refuse_two_limits, text, None)
        return attempt("limit", lambda value: _limit_from_value(value, algorithm), text, None)
    if algorithm not in (None, "token_bucket"):
        return attempt("capacity", _refuse_numbers, algorithm, None)
    tokens = attempt("capacity", lambda value: check_capacity(_given(value, "capacity")), capacity, 0)
    rate = attempt("refill_per_sec", lambda value: check_refill(_given(value, "refill_per_sec")), refill_per_sec, 0)
    return attempt("refill_per_sec", lambda _: Limit(tokens, Fraction(rate)), None, None)


def _limit_from_value(text: object, algorithm: str | None) -> AnyLimit | SlotLimit | None:
    if text is None:
        raise UsageError(f"there is no limit; write limit: 100/minute, or limit: {UNLIMITED}")
    if type(text) is int and not text:
        return Limit(0, Fraction(0))
    if not isinstance(text, str):
        raise UsageError(f"a limit is text such as '100/minute', not {text!r}; say per which time")
    return limit_from_text(text, algorithm)


def _candidate(text: object, algorithm: str | None, live: AnyLimit | SlotLimit | None) -> AnyLimit | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise UsageError(f"a candidate is a limit such as '50/minute', not {text!r}")
    if isinstance(live, SlotLimit):
        raise UsageError("how many run at a time has no candidate; leave it out")
    if live is None:
        raise UsageError("there is no limit to stand beside; write it as the limit, with mode: shadow")
    limit = limit_from_text(text, algorithm)
    if limit is None or isinstance(limit, SlotLimit) or not limit.capacity:
        raise UsageError(f"{text!r} leaves nothing to find out; a candidate is so many per time, such as '50/minute'")
    return limit


def _refuse_two_limits(text: object) -> Limit:
    raise UsageError("give either limit, or capacity and refill_per_sec, not both")


def _refuse_numbers(algorithm: str) -> Limit:
    raise UsageError(f"capacity and refill_per_sec are a token_bucket; for a {algorithm} write limit: 100/minute")


def _given(value: object, name: str) -> object:
    if value is None:
        raise UsageError(f"{name} is missing; capacity and refill_per_sec go together")
    return value


def _one_of(*choices: str | None) -> Callable[[object], Any]:
    def choose(value: object) -> Any:
        if value not in choices:
            raise UsageError(f"{value!r} is not supported; write {' or '.join(filter(None, choices))}")
        return value

    return choose


def _per_cent(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
        raise UsageError(f"rollout is a whole per cent from 0 to 100, not {value!r}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"must be a list of texts, not {value!r}")
    return tuple(value)


def _public_name(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[\x20-\x7e]{1,64}", value) or set(value) & set('"\\'):
        raise UsageError(f"must be 1 to 64 printable ASCII characters without quotes or backslashes, not {value!r}")
    return value


def _label(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not ID.fullmatch(value):
        raise UsageError(f"must be a label such as login, made like an id, not {value!r}")
    return value
