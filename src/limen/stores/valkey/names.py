"""Under which names buckets are kept.

What a client chose never appears in a key: it could steer the key to a cluster slot, collide with another, or show a
secret to whoever reads the store. A key is a keyed 128-bit hash inside our own tag; a field is four bytes that stand
for a rule.
"""

from __future__ import annotations

from binascii import b2a_base64
from functools import lru_cache
from hashlib import blake2b

from limen.errors import SettingsError

__all__ = ["KEY_LENGTH", "Names", "field_of"]

KEY_LENGTH = len("limen:{0123456789012345678901}")
MAX_REMEMBERED = 65_536


class Names:
    """Keys from identities.

    Args:
        secret: keys the hash; the same in every process that shares the store.
    """

    def __init__(self, secret: str | bytes | None) -> None:
        raw = secret.encode() if isinstance(secret, str) else secret or b""
        if len(raw) > blake2b.MAX_KEY_SIZE:
            raise SettingsError(f"the secret is {len(raw)} bytes long; at most {blake2b.MAX_KEY_SIZE} are used")
        self._keyed = blake2b(digest_size=16, key=raw, person=b"limen bucket")
        self._known: dict[str, bytes] = {}

    def key(self, identity: str) -> bytes:
        """The key of the hash that holds all buckets of an identity."""
        key = self._known.get(identity)
        if key is None:
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            key = self._known[identity] = self._hashed(identity)
        return key

    def _hashed(self, identity: str) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(identity.encode(errors="surrogatepass"))
        return b"limen:{" + b2a_base64(keyed.digest(), newline=False)[:22] + b"}"


@lru_cache(maxsize=65_536)
def field_of(rule: str) -> bytes:
    """The field that stands for a rule."""
    return blake2b(rule.encode(), digest_size=4, person=b"limen rule").digest()
