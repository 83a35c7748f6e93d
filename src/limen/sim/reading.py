"""Lines of logs: plain or gzipped files, or what is piped in; a block of whole lines at a time, in bounded memory."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from limen.errors import UsageError

__all__ = ["STDIN", "LogFile", "open_log"]

STDIN = "-"
BLOCK = 1 << 20
FIRST = 1 << 14
"""Of each log the beginning is read first, to see when it begins: of a thousand logs that is not much."""
GZIP = b"\x1f\x8b"


class LogFile:
    """An open log.

    Args:
        name: how people know it.
        raw: its bytes, as they lie on disk.
        size: how many, if that is known.

    Attributes:
        damage: why it ends before its end, if it does.
        overlong: how many lines were longer than a block, and left out.
    """

    def __init__(self, name: str, raw: BinaryIO, size: int | None) -> None:
        self.name = name
        self.size = size
        self.damage: str | None = None
        self.overlong = 0
        self._raw = _Counted(raw)
        buffered = io.BufferedReader(self._raw, FIRST)
        is_zipped = buffered.peek(2)[:2] == GZIP
        self._bytes = cast(BinaryIO, gzip.GzipFile(fileobj=buffered) if is_zipped else buffered)

    @property
    def done(self) -> int:
        """Bytes that were read from the disk."""
        return self._raw.count

    def blocks(self) -> Iterator[str]:
        """Whole lines, some ten thousand at a time."""
        rest, size = b"", FIRST
        while read := self._read(size):
            size = BLOCK
            lines, newline, last = (rest + read).rpartition(b"\n")
            rest = last
            if newline:
                yield _text(lines)
            elif len(rest) > BLOCK:
                rest = self._without_line()
        if rest:
            yield _text(rest)

    def close(self) -> None:
        self._bytes.close()
        self._raw.close()

    def _read(self, size: int = BLOCK) -> bytes:
        """The next bytes. A file that was cut off or damaged ends where it cannot be read any more."""
        try:
            return self._bytes.read(size)
        except (EOFError, OSError, zlib.error) as error:
            self.damage = str(error)
            return b""

    def _without_line(self) -> bytes:
        """Skip the rest of a line; what follows it."""
        self.overlong += 1
        while read := self._read():
            _, newline, rest = read.partition(b"\n")
            if newline:
                return rest
        return b""


class _Counted(io.RawIOBase):
    """Bytes, and how many of them were read."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__()
        self.count = 0
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # the one kind that is given
        read = self._raw.read(len(buffer))
        buffer[: len(read)] = read
        self.count += len(read)
        return len(read)

    def close(self) -> None:
        if not self.closed and self._raw is not sys.stdin.buffer:
            self._raw.close()
        super().close()


def open_log(path: str | Path) -> LogFile:
    """A log, from its path or from what is piped in (`-`).

    Raises:
        UsageError: it cannot be opened.
    """
    if str(path) == STDIN:
        return LogFile("standard input", sys.stdin.buffer, None)
    try:
        file = Path(path)
        return LogFile(str(path), file.open("rb", buffering=0), file.stat().st_size if file.is_file() else None)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _text(lines: bytes) -> str:
    """What is not UTF-8 stays what it was: it is told apart, and never an error."""
    return lines.decode("utf-8", "surrogateescape")
