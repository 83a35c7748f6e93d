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
from limen.stores.base import Slot

__all__ = ["PREVIOUS", "Names", "field_of"]

MAX_REMEMBERED = 65_536
PREVIOUS = "\0previous "
"""Before an identity: its key by the previous secret. No identity of a client begins so."""


class Names:
    """Keys from identities.

    Args:
        secret: keys the hash; the same in every process that shares the store.
        previous: the secret before it, while it is being replaced.

    Raises:
        SettingsError: a secret is too long.
    """

    def __init__(self, secret: str | bytes | None, previous: str | bytes | None = None) -> None:
        self._keyed = _keyed(secret)
        self._keyed_before = _keyed(previous)
        self._known: dict[str, bytes] = {}

    def key(self, identity: str, colocate: str = "") -> bytes:
        """The key of the hash that holds all buckets of an identity.

        Keys of one label differ only behind the tag, so they lie in one slot of a cluster.
        """
        if colocate:
            return _LABELS.tag(colocate) + self._text(identity)
        key = self._known.get(identity)
        if key is None:
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            key = self._known[identity] = self.tag(identity)
        return key

    def slots_key(self, slot: Slot) -> bytes:
        """The key of the set of those who hold slots."""
        return self.key(slot.identity, slot.colocate) + b":" + field_of(slot.rule).hex().encode()

    def tag(self, text: str) -> bytes:
        """What a cluster chooses the slot by."""
        return b"limen{" + self._text(text) + b"}"

    def _text(self, text: str) -> bytes:
        keyed = (self._keyed_before if text.startswith(PREVIOUS) else self._keyed).copy()
        keyed.update(text.removeprefix(PREVIOUS).encode(errors="surrogatepass"))
        return b2a_base64(keyed.digest(), newline=False)[:22]


def _keyed(secret: str | bytes | None) -> blake2b:
    raw = secret.encode() if isinstance(secret, str) else secret or b""
    if len(raw) > blake2b.MAX_KEY_SIZE:
        raise SettingsError(f"the secret is {len(raw)} bytes long; at most {blake2b.MAX_KEY_SIZE} are used")
    return blake2b(digest_size=16, key=raw, person=b"limen bucket")


_LABELS = Names("labels")
"""Labels are the operator's own words and no secret: while one secret replaces another, their slots stay."""


@lru_cache(maxsize=65_536)
def field_of(bucket: str) -> bytes:
    """The field that stands for a bucket of an identity (`stores.base.bucket_name`)."""
    return blake2b(bucket.encode(), digest_size=4, person=b"limen rule").digest()
