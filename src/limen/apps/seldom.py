"""Log lines that would come again and again, written once a minute."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

__all__ = ["Seldom"]

PAUSE_S = 60.0


class Seldom:
    """Writes a line when it says something new, and again when it is still true a minute later.

    Args:
        log: where lines go.
        clock: monotonic seconds.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._written: dict[str, tuple[str, float]] = {}

    def warning(self, about: str, sentence: str, error: BaseException | None = None) -> None:
        """A warning. `about` is a word for what it is about; an `error` is written with its traceback."""
        before, at = self._written.get(about, ("", 0.0))
        if sentence != before or self._clock() - at >= PAUSE_S:
            self._written[about] = (sentence, self._clock())
            self._log.warning("%s", sentence, exc_info=error)

    def over(self, about: str, sentence: str = "") -> None:
        """It is not true any more; `sentence` says so, if anything was written."""
        if self._written.pop(about, None) is not None and sentence:
            self._log.warning("%s", sentence)
