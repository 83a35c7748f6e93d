"""API keys, of which only keyed hashes are ever kept.

The hash is keyed with the secret of the deployment, so that a copy of the table alone says nothing, and a key that
was tried out is found with one lookup.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

__all__ = ["KEPT", "Secrets", "api_key_digest", "fingerprint"]

PURPOSE = b"limen api key"
"""Keeps these hashes apart from whatever else the same secret is used for."""
LONGEST_BLAKE2B_KEY = 64
KEPT = "kept-with-the-rules"
"""The name of the secret that the rules database made, where a previous secret is asked for."""


class Secrets(NamedTuple):
    """What hashes are keyed with, and what they were keyed with before, while that is being replaced."""

    current: bytes
    previous: bytes | None = None

    def digests(self, api_key: str) -> tuple[str, ...]:
        """All that may stand for a key, today's first."""
        today = api_key_digest(api_key, self.current)
        return (today,) if self.previous is None else (today, api_key_digest(api_key, self.previous))


def api_key_digest(api_key: str, secret: bytes) -> str:
    """What stands for `api_key` in the database and in memory: 256 bits in hex."""
    if len(secret) > LONGEST_BLAKE2B_KEY:
        secret = blake2b(secret).digest()
    return blake2b(api_key.encode("utf-8", "surrogatepass"), digest_size=32, key=secret, person=PURPOSE).hexdigest()


def fingerprint(digest: str) -> str:
    """A short name for a key, for people: tells keys apart and says nothing about them."""
    return digest[:12]
