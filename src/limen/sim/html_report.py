"""A report as one page that holds everything it needs, to keep or to send: charts, and a table beside each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from limen.sim.charts import bars, timeline
from limen.sim.remarks import remarks
from limen.sim.text_report import counted, percent, span_text

__all__ = ["html_report"]

SAFE = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Content Security Policy: the page loads nothing and runs nothing, whatever was in the log."""

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#d0d7de;--came:#9db8d2;--denied:#c2410c}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--line:#30363d;--came:#3d5a77;--denied:#f0803c}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:62rem;margin:2rem auto;
padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}svg{width:100%;height:auto}
text{fill:var(--ink);font-size:12px}.came{fill:var(--came)}.denied{fill:var(--denied)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{border-bottom:1px solid var(--line);padding:.3rem .5rem;text-align:left;overflow-wrap:anywhere}
td.n,th.n{text-align:right;white-space:nowrap}details{margin:.6rem 0}summary{cursor:pointer}
.key i{display:inline-block;width:.8em;height:.8em;margin:0 .4em 0 1em}
.key .c{background:var(--came)}.key .d{background:var(--denied)}
.big{font-size:1.15rem}
"""

Rows = Sequence[Sequence[object]]


def html_report(report: Mapping[str, Any], title: str) -> str:
    """The page.

    Args:
        report: as `report_of` makes it.
        title: what it is about.
    """
    parts = "\n".join(_parts(report, title))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{SAFE}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style></head><body>\n{parts}\n</body></html>\n"
    )


def _parts(report: Mapping[str, Any], title: str) -> Iterator[str]:
    yield f"<h1>{escape(title)}</h1>"
    came, of = counted(report["requests"], "request"), counted(report["clients"], "client")
    yield f'<p class="big">{came} of {of}, {_span(report)}. '
    yield f"<b>{report['denied']:,} would be denied ({percent(report['denied_ratio'])})</b>, "
    yield f"of {counted(report['clients_denied'], 'client')}.</p>"
    notes = list(remarks(report))
    if notes:
        yield f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>"
    yield from _when(report)
    yield from _by_rule(report)
    yield from _who(report)
    yield from _what(report)
    if report["effect"] is not None:
        yield from _effect(report["effect"])
    yield from _unread(report)


def _when(report: Mapping[str, Any]) -> Iterator[str]:
    steps = report["timeline"]
    yield f"<h2>When</h2><p class=key>A step is {span_text(report['step_s'])}."
    yield "<i class=c></i>requests<i class=d></i>denied</p>"
    yield timeline(steps, "Requests, and those denied, by time")
    rows = [(step["at"], step["requests"], step["denied"], _rules_of(step)) for step in steps if step["requests"]]
    yield _folded("the same as a table", _table(("from", "requests", "denied", "by"), rows))


def _by_rule(report: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Rules</h2>"
    yield bars([(each["rule"], each["denied"] + each["would_deny"]) for each in report["rules"]], "Denied by rule")
    heads = (
        "rule",
        "limit",
        "counts by",
        "mode",
        "requests",
        "denied",
        "of them",
        "clients",
        "would deny",
        "from",
        "to",
    )
    rows = [
        (
            each["rule"], each["limit"], ", ".join(each["key_by"]) or "all together", each["mode"], each["requests"],
            each["denied"], percent(each["denied_ratio"]), each["clients_denied"], each["would_deny"],
            each["first"] or "", each["last"] or "",
        )
        for each in report["rules"]
    ]  # fmt: skip
    yield _table(heads, rows)


def _who(report: Mapping[str, Any]) -> Iterator[str]:
    found = report["most_limited"]
    if not found:
        return
    yield "<h2>Who is limited most</h2>"
    yield bars([(each["client"], each["denied"]) for each in found], "Denied by client")
    rows = [(each["client"], each["requests"], each["denied"], _part(each), ", ".join(each["rules"])) for each in found]
    yield _table(("client", "requests", "denied", "of them", "by"), rows)


def _what(report: Mapping[str, Any]) -> Iterator[str]:
    found = report["paths"]
    if found:
        yield "<h2>What is denied most</h2>"
        yield bars([(each["request"], each["denied"]) for each in found], "Denied by path")
        yield _table(("request", "denied"), [(each["request"], each["denied"]) for each in found])


def _effect(effect: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>What the change does</h2>"
    yield f"<p><b>{effect['newly_denied']:,} requests ({percent(effect['newly_denied_ratio'])}) are newly denied</b>, "
    yield f"of {counted(effect['clients_newly_denied'], 'client')}; {effect['newly_allowed']:,} are newly allowed. "
    yield f"Denied before: {effect['denied_before']:,}; after: {effect['denied_after']:,}.</p>"
    yield bars([(each["client"], each["newly_denied"]) for each in effect["most"]], "Newly denied by client")
    rows = [(each["client"], each["plan"] or "", each["newly_denied"]) for each in effect["most"]]
    yield _table(("client", "plan", "newly denied"), rows)


def _unread(report: Mapping[str, Any]) -> Iterator[str]:
    files = list(report["log"]["files"].items())
    yield "<h2>The log</h2>"
    yield _table(("file", "format"), files)
    examples = [(each["file"], each["line"]) for each in report["log"]["examples"]]
    if examples:
        yield _folded("lines that could not be read", _table(("file", "line"), examples))


def _table(heads: Sequence[str], rows: Rows) -> str:
    if not rows:
        return "<p>nothing</p>"
    numbers = [isinstance(cell, int) or str(cell).endswith(" %") for cell in rows[0]]
    head = "".join(_cell("th", *each) for each in zip(heads, numbers, strict=True))
    body = "".join(f"<tr>{_cells(row, numbers)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: Iterable[object], numbers: Iterable[bool]) -> str:
    return "".join(_cell("td", *each) for each in zip(row, numbers, strict=True))


def _cell(kind: str, value: object, is_number: bool) -> str:
    text = f"{value:,}" if isinstance(value, int) else escape(str(value))
    return f"<{kind}{' class=n' if is_number else ''}>{text}</{kind}>"


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def _span(report: Mapping[str, Any]) -> str:
    return f"{report['since']} to {report['until']}" if report["since"] else "no time at all"


def _part(client: Mapping[str, Any]) -> str:
    return percent(client["denied"] / client["requests"]) if client["requests"] else ""


def _rules_of(step: Mapping[str, Any]) -> str:
    return ", ".join(f"{rule} {count:,}" for rule, count in step["by_rule"].items())
