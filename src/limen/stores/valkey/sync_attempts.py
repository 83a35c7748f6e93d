"""Work that may take longer than a request can wait: a thread that lives for this one attempt.

One thread at a time, and only when somebody asks for it, so an idle process does nothing. After a failure the next
attempt waits with full jitter (Marc Brooker, "Exponential Backoff and Jitter", 2015): no storm, whoever asks how often.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from threading import Lock, Thread
from time import monotonic

from limen.errors import StoreError
from limen.stores.valkey.waiting import Pace

__all__ = ["Attempts"]

BACKOFF_S = (0.02, 0.1, 0.5)
"""The shortest pause after a failure, the longest after the first, and the longest after any."""
ATTEMPTS_IN_A_SECOND = 5


class Attempts:
    """Something to be seen to.

    Args:
        name: of its threads.
        job: does it, or raises `StoreError`.
        failed: is told of a failure, and how many there were before it without a success.
        done: is called at the end, either way, when the next attempt may begin.
        pause_s: the least time from one success to the next attempt.
    """

    def __init__(
        self,
        name: str,
        job: Callable[[], None],
        failed: Callable[[StoreError, int], None],
        done: Callable[[], None],
        pause_s: float = 0.0,
    ) -> None:
        self.failures = 0
        """How many in a row."""
        self._name = name
        self._job = job
        self._failed = failed
        self._done = done
        self._pause_s = pause_s
        self._under_way = Lock()
        self._not_before = 0.0
        self._pace = Pace(ATTEMPTS_IN_A_SECOND)

    def run(self) -> None:
        """Have it seen to, unless that is under way or too early."""
        if monotonic() < self._not_before or not self._under_way.acquire(blocking=False):
            return
        try:
            Thread(target=self._see_to_it, name=self._name, daemon=True).start()
        except RuntimeError as error:  # the interpreter is shutting down, or there are too many threads
            self._note_failure(StoreError(f"{self._name}: {error}", "down"))
            self._under_way.release()

    def _see_to_it(self) -> None:
        try:
            self._job()
            self.failures = 0
            self._not_before = monotonic() + self._pause_s
        except StoreError as error:
            self._note_failure(error)
        finally:
            self._under_way.release()
            self._done()

    def _note_failure(self, error: StoreError) -> None:
        self._failed(error, self.failures)
        self.failures += 1
        shortest_s, first_s, longest_s = BACKOFF_S
        next_at = monotonic() + random.uniform(shortest_s, min(first_s * 2**self.failures, longest_s))
        self._not_before = next_at + self._pace.wait_s(next_at)
