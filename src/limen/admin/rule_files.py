"""Keeps a process at the state of a rule file."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from limen.admin.polling import Poller, ignore_look
from limen.errors import RulesUnavailable, SettingsError
from limen.rules.parse import MAX_BYTES, rules_from_text
from limen.rules.ruleset import RuleSet

__all__ = ["FileWatcher"]


class FileMark(NamedTuple):
    """What tells one state of a file from another. A link that was pointed elsewhere shows as another inode."""

    mtime_ns: int
    size: int
    inode: int


class FileWatcher(Poller[FileMark]):
    """Looks at a file every second and loads it when it has changed and come to rest.

    A file that is being written is left alone until two looks see the same; one that cannot be read, or is not a valid
    set of rules, leaves the previous set in force.

    Args:
        url: `file:///path/rules.yaml`.
        on_rules: is given each new set of rules; its revision is the time of the file in microseconds.
        interval_s: seconds between two looks, give or take a tenth.
        on_error: is told of every failure.
        now: Unix time in seconds.
        on_look: is told after every look.

    Attributes:
        revision: of the rules that are in force; 0 before the first load.

    Raises:
        SettingsError: not the URL of a local file.
    """

    def __init__(
        self,
        url: str,
        on_rules: Callable[[RuleSet], None],
        *,
        on_error: Callable[[Exception], None],
        interval_s: float = 1.0,
        now: Callable[[], float] = time.time,
        on_look: Callable[[], None] = ignore_look,
    ) -> None:
        super().__init__(interval_s, on_error, now, on_look)
        self.path = _path(url)
        self._on_rules = on_rules
        self._seen: FileMark | None = None
        self.revision = 0

    async def look(self) -> FileMark:
        found = await asyncio.to_thread(_mark, self.path)
        at_rest = found == self._seen
        self._seen = found
        return found if at_rest or self._mark is None else self._mark

    async def load(self) -> FileMark:
        mark, ruleset = await asyncio.to_thread(_read, self.path)
        self._on_rules(ruleset)
        self.revision = ruleset.revision
        return mark


def _path(url: str) -> Path:
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.strip("/"):
        raise SettingsError(f"{url!r} is not a local file; write file:///etc/limen/rules.yaml")
    return Path(unquote(parts.path))


def _mark(path: Path) -> FileMark:
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return FileMark(found.st_mtime_ns, found.st_size, found.st_ino)


def _read(path: Path) -> tuple[FileMark, RuleSet]:
    """The set in the file.

    Raises:
        RulesUnavailable: the file cannot be read, or changed meanwhile.
        RuleError: it is not a valid set.
    """
    before = _mark(path)
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    if _mark(path) != before:
        raise RulesUnavailable(f"{path} was written while it was read")
    return before, RuleSet(rules_from_text(text, os.fspath(path)), before.mtime_ns // 1000)


def _unreadable(path: Path, error: OSError) -> RulesUnavailable:
    return RulesUnavailable(f"{path} cannot be read: {error.strerror or error}")
