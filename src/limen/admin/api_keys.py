"""API keys, of which only keyed hashes are ever kept.

The hash is keyed with the secret of the deployment, so that a copy of the table alone says nothing, and a key that
was tried out is found with one lookup.
"""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["api_key_digest", "fingerprint"]

PURPOSE = b"limen api key"
"""Keeps these hashes apart from whatever else the same secret is used for."""
LONGEST_BLAKE2B_KEY = 64


def api_key_digest(api_key: str, secret: bytes) -> str:
    """What stands for `api_key` in the database and in memory: 256 bits in hex."""
    if len(secret) > LONGEST_BLAKE2B_KEY:
        secret = blake2b(secret).digest()
    return blake2b(api_key.encode("utf-8", "surrogatepass"), digest_size=32, key=secret, person=PURPOSE).hexdigest()


def fingerprint(digest: str) -> str:
    """A short name for a key, for people: tells keys apart and says nothing about them."""
    return digest[:12]
