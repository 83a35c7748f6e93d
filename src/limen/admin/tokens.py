"""Tokens of the admin API: how they are made, what is kept of them, and what an operator writes about one. Pure.

A token is `lmn_`, a public id of eight characters, `_`, 256 random bits in base 62, and their checksum. The prefix
lets scanners of repositories and logs find it, the checksum tells a token from what only looks like one without asking
anybody. What is kept is the SHA-256 of the whole: at 256 random bits there is nothing to try out, so a slow hash would
only slow us down; the id in it is its salt.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple
from zlib import crc32

from limen.admin.callers import RESERVED, role_named
from limen.errors import Problem, RuleError, UsageError
from limen.rules.duration import duration_s

__all__ = [
    "DEFAULT_LIFE", "NewToken", "StoredToken", "TokenOrder", "digest_of", "has_prefix", "is_id", "make_token",
    "token_body", "token_id", "token_order_from",
]  # fmt: skip

PREFIX = "lmn_"
TOKEN = re.compile(r"lmn_([0-9A-Za-z]{8})_([0-9A-Za-z]{43})([0-9A-Za-z]{6})", re.ASCII)
ID = re.compile(r"[0-9A-Za-z]{8}", re.ASCII)
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SECRET_BYTES = 32
FIELDS = ("name", "role", "for")
DEFAULT_LIFE = "90d"
SHORTEST_S, LONGEST_S = 60, 366 * 86_400
LONGEST_NAME = 64


class NewToken(NamedTuple):
    """A token at the only moment at which anybody knows it."""

    id: str
    text: str
    digest: str


class StoredToken(NamedTuple):
    """What is kept. Times are Unix times in seconds."""

    id: str
    name: str
    """Whom it stands for: the author of what is done with it."""
    role: str
    digest: str
    """SHA-256 of the token, in hex."""
    created: int
    created_by: str
    expires: int
    revoked: int | None
    """None while it is not."""
    last_used: int | None
    """To the hour; None before the first time."""

    def state(self, now: float) -> str:
        """`valid`, `expired` or `revoked`."""
        return "revoked" if self.revoked is not None else "expired" if now >= self.expires else "valid"

    def is_of(self, digest: str) -> bool:
        """Compared in constant time."""
        return hmac.compare_digest(self.digest.encode(), digest.encode())


class TokenOrder(NamedTuple):
    """A token that somebody wants."""

    name: str
    role: str
    seconds: float


def make_token() -> NewToken:
    """A token that nobody else has."""
    identity = "".join(secrets.choice(ALPHABET) for _ in range(8))
    body = f"{PREFIX}{identity}_{_base62(int.from_bytes(secrets.token_bytes(SECRET_BYTES)), 43)}"
    text = body + _checksum(body)
    return NewToken(identity, text, digest_of(text))


def has_prefix(text: str) -> bool:
    """Whether somebody means it to be a token of ours."""
    return text.startswith(PREFIX)


def is_id(text: str) -> bool:
    """Whether a token could have this id."""
    return ID.fullmatch(text) is not None


def token_id(text: str) -> str | None:
    """The id in a token; None when it is none."""
    found = TOKEN.fullmatch(text)
    return found[1] if found and _checksum(text[:-6]) == found[3] else None


def digest_of(text: str) -> str:
    """What is kept of a token."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def token_body(token: StoredToken, now: float) -> dict[str, Any]:
    """A token as JSON, without anything by which it could be used."""
    return {**{name: value for name, value in token._asdict().items() if name != "digest"}, "state": token.state(now)}


def token_order_from(document: object) -> TokenOrder:
    """The fields of `{name, role, for}`; `for` may be left out.

    Raises:
        RuleError: every problem, each naming its field.
    """
    if not isinstance(document, Mapping):
        example = '{"name": "ci", "role": "editor", "for": "90d"}'
        raise RuleError([Problem(f"a token is ordered by an object such as {example}")])
    problems = list(_unknown(document))
    read: dict[str, Any] = {}
    for name, check in CHECKS.items():
        try:
            read[name] = check(document.get(name, DEFAULT_LIFE if name == "for" else None))
        except UsageError as error:
            problems.append(Problem(str(error), field=name))
    if problems:
        raise RuleError(problems)
    return TokenOrder(read["name"], read["role"], read["for"])


def _unknown(document: Mapping[Any, Any]) -> Iterator[Problem]:
    for name in document:
        if name not in FIELDS:
            yield Problem(f"there is no such field; a token has {', '.join(FIELDS)}", field=str(name))


def _name(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_NAME or not value.isprintable():
        raise UsageError(f"is needed: 1 to {LONGEST_NAME} printable characters that say who uses the token")
    if value != value.strip() or value in RESERVED or has_prefix(value):
        raise UsageError("this cannot be the name of a token; name the person or the program that uses it")
    return value


def _life(value: object) -> float:
    seconds = duration_s(value)
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise UsageError(f"a token lives for a minute to {LONGEST_S // 86_400} days, not {value!r}")
    return seconds


CHECKS = {"name": _name, "role": role_named, "for": _life}


def _checksum(text: str) -> str:
    return _base62(crc32(text.encode()), 6)


def _base62(number: int, digits: int) -> str:
    found = ""
    for _ in range(digits):
        number, last = divmod(number, 62)
        found = ALPHABET[last] + found
    return found
