"""Rule documents that no rule should be: what a typo, a broken program or an attacker writes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["poison"]

GOOD: list[dict[str, Any]] = [
    {"match": {"path": "/v1/**"}, "key_by": ["client"], "limit": "100/minute"},
    {"match": {"methods": ["GET"], "host": "*.example.com", "ip": ["10.0.0.0/8"]}, "limit": "20/second burst 100"},
    {"match": {"path": "/{org}/x", "plan": ["free"]}, "key_by": ["client", "path.org"], "limit": "5/calendar day"},
    {"match": {"client": "acme", "header": {"x-tier": "gold"}}, "capacity": 100, "refill_per_sec": 1.5},
    {"limit": "10 concurrent for 60s", "public_name": "Exports"},
    {"match": {"path": "/a"}, "limit": "10/minute", "cost": {"default": 1, "when": [{"path": "/a/b", "cost": 10}]}},
    {"limit": "1000/hour", "lease": {"size": 50, "ttl": "1s"}, "mode": "shadow", "rollout": 10, "tags": ["auth"]},
    {"limit": "9/minute", "algorithm": "sliding_log", "colocate": "login", "on_failure": "closed", "regions": "local"},
    {"limit": "9/minute", "candidate": "5/minute", "carry_over": "reset"},
]
NUMBERS = [
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "-1", "0", "-0.0", "1e-400", "0.1", "9" * 400, "1" + "0" * 5000,
]  # fmt: skip
TEXTS = [
    "", " ", "\x00", "\ud800", "\udfff\ud800", "\u202e", "\ufeff", "x" * 100_000, "9" * 100_000 + "/minute",
    "/" * 50_000, "/" + "*/" * 20_000, "/**/**", "/{a}{b}", "/{a}/{a}", "/%2e%2e/%00", "../../etc/passwd", "[" * 1000,
    "(a+)+$", "^(a|a)*$", "100/fortnight", "1/0s", "٣/minute", "-5/minute", "1/minute burst 0", "1/day Mars/Base",
    "10 concurrent for 999999s", "'; DROP TABLE rules; --", "${jndi:ldap://x}", "{{7*7}}", "\r\nX-Injected: 1",
    "0.0.0.0/0", "::/0", "1.2.3.4/99",
]  # fmt: skip
FIELDS = [
    "id", "version", "match", "key_by", "algorithm", "limit", "capacity", "refill_per_sec", "cost", "on_failure",
    "mode", "rollout", "lease", "regions", "colocate", "tags", "public_name", "candidate", "carry_over", "unknown", "",
]  # fmt: skip


def poison(count: int, seed: int = 7, large: bool = True) -> Iterator[str]:
    """`count` texts, meant as JSON documents of rules. Some hold half characters; a few are fine.

    Args:
        large: some of 10 MB, and some that are nested 100 000 deep, are among them.
    """
    chance = random.Random(seed)
    kinds = [*KINDS, *(LARGE if large else ())]
    weights = [20] * len(KINDS) + [1] * (len(kinds) - len(KINDS))
    for make in chance.choices(kinds, weights, k=count):
        yield make(chance)


def _good(chance: random.Random) -> dict[str, Any]:
    return json.loads(json.dumps(chance.choice(GOOD)))  # type: ignore[no-any-return]


def _value(chance: random.Random, depth: int = 0) -> Any:
    """Any value that JSON has."""
    kind = chance.randrange(8 if depth < 3 else 5)
    if kind < 2:
        return chance.choice(TEXTS)
    if kind == 2:
        return chance.choice([None, True, False])
    if kind < 5:
        return chance.choice([0, -1, 1, 2**31, 2**63, -(10**30), 0.5, 1e308, 5e-324])
    inside = [_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return inside if kind < 7 else {chance.choice(FIELDS + TEXTS[:5]): value for value in inside}


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place inside a document: what holds it, and its name or number there."""
    names = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for name in names:
        yield value, name
        yield from _places(value[name])


def replaced(chance: random.Random) -> str:
    """Something inside is something else."""
    document = _good(chance)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        holder, name = chance.choice(list(_places(document)) or [({}, "x")])
        holder[name] = _value(chance)
    return json.dumps(document)


def added(chance: random.Random) -> str:
    """A field more, or another value for one."""
    return json.dumps({**_good(chance), chance.choice(FIELDS): _value(chance)})


def left_out(chance: random.Random) -> str:
    """Something inside is missing, or null."""
    document = _good(chance)
    holder, name = chance.choice(list(_places(document)))
    if chance.random() < 0.5:
        holder[name] = None
    else:
        del holder[name]
    return json.dumps(document)


def odd_number(chance: random.Random) -> str:
    """A number that JSON does not have, or nobody can count to."""
    field = chance.choice(["capacity", "refill_per_sec", "cost", "rollout", "limit", "version"])
    number = chance.choice(NUMBERS)
    return json.dumps({**_good(chance), field: 12345}).replace("12345", number)


def twice(chance: random.Random) -> str:
    """A field is there twice."""
    text = json.dumps(_good(chance))
    return text[:-1] + ", " + text[1:]


def damaged(chance: random.Random) -> str:
    """Signs are lost, doubled or others."""
    signs = list(json.dumps(_good(chance)))
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(signs))
        signs[place : place + chance.randrange(3)] = chance.choice(
            ["", "{", "}", '"', "\\", "\x00", ",", "\ud800", "é", "]"]
        )
    return "".join(signs)


def cut(chance: random.Random) -> str:
    """The end is missing."""
    text = json.dumps(_good(chance))
    return text[: chance.randrange(len(text))]


def no_rule(chance: random.Random) -> str:
    """JSON, but no object; or hardly JSON."""
    return chance.choice(
        ["", " ", "null", "[]", "{}", "0", '""', "true", "[{}]", "NaN", "\ufeff{}", "{'a': 1}", "rules: []", "\x00"]
    )


def nested(chance: random.Random) -> str:
    """Deeper than anybody reads."""
    depth = chance.choice([19, 20, 21, 500, 2000])
    field = chance.choice(["match", "cost", "tags", "limit"])
    return json.dumps({**_good(chance), field: 12345}).replace("12345", "[" * depth + "]" * depth)


def many(chance: random.Random) -> str:
    """A list with thousands of entries, or a cost with as many."""
    count = chance.choice([100, 100, 100, 1000, 5000])
    lists: list[dict[str, Any]] = [
        {"match": {"path": "/many", "client": [f"client-{number}" for number in range(count)]}},
        {"match": {"path": "/many", "ip": [f"10.{number >> 8}.{number & 255}.0/24" for number in range(count)]}},
        {"match": {"path": "/" + "/".join(["a"] * count)}},
        {"match": {"path": "/" + "/".join(f"{{n{number}}}" for number in range(count))}},
        {"cost": {"when": [{"path": f"/many/{number}", "cost": 1} for number in range(count)]}},
        {"key_by": [f"header.x-{number}" for number in range(count)]},
        {"tags": ["x"] * count},
    ]
    return json.dumps({"limit": "10/minute", **chance.choice(lists)})


def huge(chance: random.Random) -> str:
    """10 MB."""
    return json.dumps({**_good(chance), chance.choice(["public_name", "limit", "id"]): "x" * 10_000_000})


def bottomless(chance: random.Random) -> str:
    """100 000 levels."""
    return '{"match": ' + "[" * 100_000 + "]" * 100_000 + "}"


KINDS: list[Callable[[random.Random], str]] = [
    replaced, added, left_out, odd_number, twice, damaged, cut, no_rule, nested, many,
]  # fmt: skip
LARGE: list[Callable[[random.Random], str]] = [huge, bottomless]
