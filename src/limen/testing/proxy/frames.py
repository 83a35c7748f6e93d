"""Where one RESP reply ends and the next begins (RESP2 and RESP3). Bytes are never changed."""

from __future__ import annotations

__all__ = ["Frames"]

LINE = frozenset(b"+-:_#,(")
BULK = frozenset(b"$!=")
VALUES_EACH = {ord("*"): 1, ord("~"): 1, ord(">"): 1, ord("%"): 2, ord("|"): 2}
"""How many values follow for each that the head of an aggregate counts."""
ATTRIBUTE = ord("|")
KINDS = LINE | BULK | VALUES_EACH.keys()


class Frames:
    """Cuts a stream into replies. What is no RESP comes through as it is, in pieces of any size."""

    def __init__(self) -> None:
        self.is_resp = True
        self._buffer = bytearray()
        self._at = 0
        """Where the next value of the reply begins."""
        self._missing = 1
        """Values that the reply still needs."""

    def feed(self, data: bytes) -> list[bytes]:
        """The replies that are whole now. A push message counts as one."""
        self._buffer += data
        found = []
        while (end := self._end()) is not None:
            found.append(bytes(self._buffer[:end]))
            del self._buffer[:end]
        return found

    def _end(self) -> int | None:
        """Where the first reply in the buffer ends, or None when more is needed."""
        while self.is_resp and self._missing:
            if not self._pass_value():
                break
        if not self.is_resp:
            return len(self._buffer) or None
        if self._missing:
            return None
        end, self._at, self._missing = self._at, 0, 1
        return end

    def _pass_value(self) -> bool:
        """Go past one value, or the head of an aggregate; False when it is not all there."""
        line_end = self._buffer.find(b"\r\n", self._at)
        if line_end < 0:
            self.is_resp = self._at == len(self._buffer) or self._buffer[self._at] in KINDS
            return False
        kind, count = self._buffer[self._at], self._count(line_end)
        end = line_end + 2 + (count + 2 if kind in BULK and count >= 0 else 0)
        if not self.is_resp or end > len(self._buffer):
            return False
        self._at = end
        self._missing += self._values(kind, count)
        return True

    def _count(self, line_end: int) -> int:
        """What the head of a value says about its length; 0 where it says nothing."""
        kind = self._buffer[self._at]
        self.is_resp = kind in KINDS
        if kind in LINE or not self.is_resp:
            return 0
        try:
            return int(self._buffer[self._at + 1 : line_end])
        except ValueError:  # some other protocol, or a stream without a length, which no server sends
            self.is_resp = False
            return 0

    def _values(self, kind: int, count: int) -> int:
        """How many more values are needed after this one. An attribute stands before the value that it is about."""
        return VALUES_EACH.get(kind, 0) * max(0, count) - (kind != ATTRIBUTE)
