"""Who asks most often, in bounded memory: Space-Saving.

Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams" (ICDT 2005). A full
table gives the place of the key that was counted least to the new one, with its count: that count is then an upper
bound, and what was taken over is how far it may be too high. Of N keys counted in m places, none is too high by more
than N/m, and every key that came more often than that has a place. So a flood of keys that come once hides nobody who
comes often, and makes nobody look as if it did.

Counts are of one window of time; the next begins with an empty table. Keys of one count are kept together, so that
counting is a few dictionary steps whatever the size.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["HeavyHitters"]

Key = TypeVar("Key", bound=Hashable)


class HeavyHitters(Generic[Key]):
    """Counts keys. Not safe for threads.

    Args:
        places: how many keys are counted at the same time.
        window_us: how long, in microseconds.
    """

    def __init__(self, places: int, window_us: int) -> None:
        self.began_us = 0
        """When the window began."""
        self._places = places
        self._window_us = window_us
        self._counts: dict[Key, tuple[int, int]] = {}
        self._alike: dict[int, dict[Key, None]] = {}
        self._least = 0

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, key: Key, now_us: int) -> int:
        """Count a key once; how often it has come in this window at least."""
        if not 0 <= now_us - self.began_us < self._window_us:
            self.clear()
            self.began_us = now_us
        found = self._counts.get(key)
        if found is not None:
            count, error = found
            self._leave(key, count)
        elif len(self._counts) < self._places:
            count = error = 0
        else:
            count = error = self._make_room()
        self._enter(key, count + 1, error)
        return count + 1 - error

    def drop(self, key: Key) -> None:
        """Forget a key: it is counted from nothing again."""
        found = self._counts.get(key)
        if found is not None:
            self._leave(key, found[0])
            self._least = min(self._alike, default=0)

    def clear(self) -> None:
        """Forget all."""
        self._counts.clear()
        self._alike.clear()
        self._least = 0

    def _enter(self, key: Key, count: int, error: int) -> None:
        self._counts[key] = (count, error)
        self._alike.setdefault(count, {})[key] = None
        if count == 1 or self._least not in self._alike:
            self._least = count

    def _leave(self, key: Key, count: int) -> None:
        del self._counts[key]
        alike = self._alike[count]
        del alike[key]
        if not alike:
            del self._alike[count]

    def _make_room(self) -> int:
        """Give up one of the keys that came least often; its count."""
        self._leave(next(iter(self._alike[self._least])), self._least)
        return self._least
