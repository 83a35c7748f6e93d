"""A clock that stands where it is put."""

from __future__ import annotations

__all__ = ["VirtualClock"]


class VirtualClock:
    """Microseconds since 1970, as the log says.

    Attributes:
        us: now.
    """

    __slots__ = ("us",)

    def __init__(self, us: int = 0) -> None:
        self.us = us

    def now_us(self) -> int:
        return self.us
