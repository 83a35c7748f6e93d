"""What was said of single clients, on disk: for a process that starts while the rules database is away.

A file beside that of the rules, of lines: a head `{"format", "database", "seen"}`, one line for each entry, and the
SHA-256 of all lines before it. It is written and read in small steps, for it may have a hundred thousand lines, and
nobody's request may wait for that. It is put in place in one step; only its owner may read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from limen.admin.last_good import database_name, replace_file
from limen.errors import LimenError, RulesUnavailable
from limen.rules.standing import Block, Flag, Override, Standing

__all__ = ["SavedStanding", "StandingFile"]

FORMAT = 1
AT_A_TIME = 200
"""Lines that are written without letting others have a turn."""
MAX_BYTES = 512 << 20
KINDS: tuple[type[Any], ...] = (Block, Flag, Override)
"""By the number that a line begins with."""


class SavedStanding(NamedTuple):
    seen: int
    """How many changes are in it."""
    standing: Standing


class StandingFile:
    """The file of one rules database.

    Args:
        folder: where such files are; it is made when it is needed.
        url: of the database.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self._database = database_name(url)
        self.path = folder / f"standing-{self._database[:16]}.jsonl"

    def save(self, saved: SavedStanding) -> None:
        """
        Raises:
            RulesUnavailable: the disk does not take it; the file is as it was.
        """
        content = b"".join(_lines(saved, self._database))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(self.path, content + sha256(content).hexdigest().encode() + b"\n")
        except OSError as error:
            raise RulesUnavailable(f"{self.path} cannot be written: {error.strerror or error}") from error

    def load(self) -> SavedStanding:
        """
        Raises:
            RulesUnavailable: there is none, or it is not what was written there.
        """
        try:
            with self.path.open("rb") as file:
                text = file.read(MAX_BYTES)
        except FileNotFoundError:
            raise RulesUnavailable(f"nothing was saved yet in {self.path}") from None
        except OSError as error:
            raise RulesUnavailable(f"{self.path} cannot be read: {error.strerror or error}") from error
        content, _, digest = text.rstrip(b"\n").rpartition(b"\n")
        if sha256(content + b"\n").hexdigest().encode() != digest:
            raise self._refused("its checksum is wrong, so it is damaged")
        try:
            return self._saved(content.splitlines())
        except (ValueError, TypeError, KeyError, IndexError, LimenError) as error:
            raise self._refused(f"it cannot be read: {error}") from error

    def _saved(self, lines: list[bytes]) -> SavedStanding:
        head = json.loads(lines[0])
        if (head["format"], head["database"]) != (FORMAT, self._database):
            raise ValueError("it is of another version, or of another database")
        found: tuple[list[Any], ...] = ([], [], [])
        for line in lines[1:]:
            kind, *fields = json.loads(line)
            found[kind].append(KINDS[kind](*fields))
        return SavedStanding(int(head["seen"]), Standing(*found))

    def _refused(self, reason: str) -> RulesUnavailable:
        return RulesUnavailable(f"what was saved in {self.path} is not used: {reason}; delete the file")


def _lines(saved: SavedStanding, database: str) -> Iterator[bytes]:
    yield _line({"format": FORMAT, "database": database, "seen": saved.seen})
    blocks, flags, overrides = saved.standing.entries()
    entries = chain(
        ((0, *block) for block in blocks), ((1, *flag) for flag in flags), ((2, *override) for override in overrides)
    )
    while some := list(islice(entries, AT_A_TIME)):
        yield b"".join(map(_line, some))


def _line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"
