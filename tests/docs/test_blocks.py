"""Every command and snippet of the documentation is run, and what it shows is what comes.

```python    is run as a program
```bash      is run against `limen up`; a command that goes on for ever, until it is ready
```yaml      is a rule document
```console   is output: of the ```bash block before it, or, after a line `$ …`, what `limen up` prints
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from limen.rules.parse import rules_from_text

NUMBERS = re.compile(r"\b[0-9a-f]{12}\b|\d+")
"""What differs from run to run: fingerprints, counts, times, ports."""
WEEKDAYS = re.compile(r"\b[A-Z][a-z]{2}, \d+ [A-Z][a-z]{2} \d+")


def test_a_block_does_what_it_says(block: Any, request: pytest.FixtureRequest) -> None:
    assert block.kind in CHECKS, f"a block is one of {', '.join(CHECKS)}: nothing else is checked"
    CHECKS[block.kind](block, request)


def python(block: Any, request: pytest.FixtureRequest) -> None:
    world = request.getfixturevalue("world")
    world.run(sys.executable, "-W", "error", str(Path(__file__).with_name("run_block.py")), str(block), text=block.text)


def bash(block: Any, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("world").printed(block.text)


def yaml(block: Any, request: pytest.FixtureRequest) -> None:
    assert rules_from_text(block.text, str(block))


def console(block: Any, request: pytest.FixtureRequest) -> None:
    world = request.getfixturevalue("world")
    shown = [line for line in block.text.splitlines() if line.strip() and not line.startswith("$ ")]
    printed = world.banner if block.text.startswith("$ ") else world.printed(block.before)
    assert_shown(shown, printed.splitlines())


CHECKS: dict[str, Callable[[Any, pytest.FixtureRequest], None]] = {
    "python": python, "bash": bash, "yaml": yaml, "console": console,
}  # fmt: skip


def assert_shown(shown: list[str], printed: list[str]) -> None:
    """Each line is printed, in this order; numbers may differ, and `…` stands for anything, also for lines."""
    rest = iter([masked(line) for line in printed])
    for line in shown:
        if line.strip() != "…":
            pattern = re.escape(masked(line)).replace("…", ".*")
            assert any(re.fullmatch(pattern, candidate) for candidate in rest), f"{line!r} is not in {printed}"


def masked(line: str) -> str:
    return NUMBERS.sub("0", WEEKDAYS.sub("today", line.rstrip()))
