"""A report is one page that shows what was counted, whatever was in the log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

from limen.rules.model import Rule
from limen.rules.ruleset import RuleSet
from limen.sim.html_report import html_report
from limen.sim.replay import replay
from limen.sim.report import report_of
from limen.sim.text_report import report_lines
from tests.sim.conftest import WriteLog

RULES = RuleSet(
    [Rule("all", key_by=["ip"], limit="6/minute"), Rule("idle", match={"path": "/never"}, limit="1/minute")]
)
HOSTILE = "/<script>alert(1)</script>'&quot;"
VOID = {"meta", "rect"}


class Page(HTMLParser):
    """Everything in a page: elements that are open must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data

    def elements(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.seen if name == tag)


@pytest.fixture
def report(write_log: WriteLog) -> dict[str, Any]:
    lines = [(number, f"192.0.2.{number % 2}", HOSTILE if number % 3 else "/fine") for number in range(60)]
    before = RuleSet([Rule("all", key_by=["ip"], limit="30/minute")])
    log = write_log(lines)
    log.write_text(log.read_text() + f"<b>no line</b> {HOSTILE}\n")
    return report_of(replay(RULES, [log], before=before))


def test_a_page_holds_all_that_it_needs(report: dict[str, Any]) -> None:
    page = Page(html_report(report, "access.log under rules.yaml"))
    used = {name for name, _ in page.seen}
    assert used.isdisjoint({"script", "link", "img", "iframe", "object", "form", "base"})
    references = [value for _, attributes in page.seen for name, value in attributes.items() if name in ("src", "href")]
    assert references == []
    policies = [meta for meta in page.elements("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in (policies[0]["content"] or "")


def test_a_page_shows_what_was_counted_beside_each_chart(report: dict[str, Any]) -> None:
    text = html_report(report, "access.log under rules.yaml")
    page = Page(text)
    assert report["denied"] == 60 - 2 * 6 - 2 * 5
    assert ["all", "6/minute", "ip", "enforce", "60", "38", "63.3 %"] in [row[:7] for row in page.rows]
    assert ["192.0.2.0", "30", "19", "63.3 %", "all"] in page.rows
    assert {each["request"] for each in report["paths"]} == {f"GET {HOSTILE}", "GET /fine"}
    assert [[each["request"], str(each["denied"])] in page.rows for each in report["paths"]] == [True, True]
    assert len(list(page.elements("svg"))) == 5
    assert len(list(page.elements("table"))) >= 5
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in page.elements("svg"))
    assert "38 would be denied (63.3 %)" in text


def test_nothing_of_a_log_becomes_part_of_a_page(report: dict[str, Any]) -> None:
    text = html_report(report, f"log {HOSTILE}")
    assert "<script" not in text
    assert "<b>no line" not in text


def test_a_page_of_many_lines_is_no_larger_than_one_of_few(write_log: WriteLog) -> None:
    lines = [(number * 35.0, f"192.0.{number % 256}.{number % 199}", f"/{number % 5000}") for number in range(8_000)]
    rules = RuleSet([Rule("all", key_by=[], limit="1/minute")])
    assert len(html_report(report_of(replay(rules, [write_log(lines)])), "a day")) < 150_000


def test_a_report_of_nothing(write_log: WriteLog) -> None:
    report = report_of(replay(RULES, [write_log([])]))
    Page(html_report(report, "nothing"))
    assert "0 requests of 0 clients" in "\n".join(report_lines(report))


def test_text_says_the_same_and_no_controls(report: dict[str, Any]) -> None:
    report["log"]["examples"] = [{"file": "access.log", "line": "\x1b[31mred\x07"}]
    text = "\n".join(report_lines(report))
    assert re.search(r"^all +6/minute +60 +38 +63.3 % +2 ", text, re.MULTILINE)
    assert "could be read, and were left out: 1" in text
    assert "newly denied: 38 of 60 requests (63.3 %), of 2 clients" in text
    assert not set("\x1b\x07") & set(text)
