"""The page on algorithms shows what the code does, and the page on rules writes limits that mean what it says."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from limen.rules.limit_text import limit_from_text
from limen.rules.model import ALGORITHMS, Rule

DOCS = Path(__file__).resolve().parents[2] / "docs"
TIMELINES = DOCS / "timelines.py"
HOW = "the page is not what the code gives; read what changed, then run .venv/bin/python docs/timelines.py"
SAY = {"Token bucket": "token_bucket", "Calendars": "fixed_window", "So many at a time": "concurrency"}
"""What the limits below a heading of the page on rules say by themselves, without an algorithm beside them."""


@pytest.fixture(scope="module")
def drawn() -> dict[str, Any]:
    """The program that draws, not as a program."""
    return runpy.run_path(str(TIMELINES))


def test_the_pictures_are_what_the_code_gives(drawn: dict[str, Any]) -> None:
    page = (DOCS / "algorithms.md").read_text()
    pictures = drawn["pictures"]()
    assert page == drawn["redrawn"](page, pictures), HOW
    assert set(re.findall(r"<!-- drawn: (\w+) -->", page)) == set(pictures)


def test_nobody_gets_more_in_any_minute_than_the_page_says(drawn: dict[str, Any]) -> None:
    found = re.findall(r"^\| `([\w ]+)` \| \d+ \| (\d+) \| (\d+): ", drawn["most"](), re.MULTILINE)
    assert [name for name, *_ in found] == list(drawn["RULES"])
    assert [name for name, counted, bound in found if int(counted) > int(bound)] == []


def test_the_pictures_are_of_every_algorithm_that_counts_requests(drawn: dict[str, Any]) -> None:
    assert {rule.algorithm for rule in drawn["RULES"].values()} == set(ALGORITHMS) - {"concurrency"}


@pytest.mark.parametrize("name", ["algorithms.md", "rules.md"])
def test_every_algorithm_is_on_its_pages(name: str) -> None:
    text = (DOCS / name).read_text()
    assert [algorithm for algorithm in ALGORITHMS if f"`{algorithm}`" not in text] == []


def limits_written() -> Iterator[tuple[str, str | None, str]]:
    """The limits in the tables of the page on rules, the algorithms to try them under, and those that they must be."""
    sections = re.split(r"^#+ (.+)\n", (DOCS / "rules.md").read_text(), flags=re.MULTILINE)
    for heading, text in zip(sections[1::2], sections[2::2], strict=True):
        if table := re.search(r"^\| written \|(.*)\n\|[- |]+\n((?:\|.*\n)+)", text, re.MULTILINE):
            named = [(name, name) for name in re.findall(r"`(\w+)`", table[1])] or [(None, SAY[heading])]
            for limit in re.findall(r"^\| `(.+?)`", table[2], re.MULTILINE):
                yield from ((limit, *names) for names in named)


@pytest.mark.parametrize(("limit", "given", "algorithm"), list(limits_written()))
def test_a_limit_is_written_as_the_page_says(limit: str, given: str | None, algorithm: str) -> None:
    assert Rule("r", limit=limit, algorithm=given).algorithm == algorithm


@pytest.mark.parametrize("name", ["algorithms.md", "rules.md"])
def test_texts_that_look_like_limits_are_limits(name: str) -> None:
    texts = re.findall(r"`(\d[\d_,]*(?: ?/| per | concurrent)[^`]*)`", (DOCS / name).read_text())
    assert texts
    for text in texts:
        assert limit_from_text(text) is not None
