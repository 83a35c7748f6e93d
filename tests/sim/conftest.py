"""Logs to replay."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest

BEGIN = datetime(2025, 6, 15, 15, 6, 40, tzinfo=UTC)

WriteLog = Callable[..., Path]


@pytest.fixture
def write_log(tmp_path: Path) -> WriteLog:
    """`write_log([(seconds, address, path), …], "access.log")`: a log in the Common Log Format; its path."""

    def write(lines: Iterable[tuple[float, str, str]], name: str = "access.log") -> Path:
        written = [
            f'{ip} - - [{datetime.fromtimestamp(BEGIN.timestamp() + at_s, UTC):%d/%b/%Y:%H:%M:%S +0000}] "GET {path} '
            'HTTP/1.1" 200 12\n'
            for at_s, ip, path in lines
        ]
        (tmp_path / name).write_text("".join(written))
        return tmp_path / name

    return write
