"""A report for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from limen.sim.remarks import remarks

__all__ = ["counted", "effect_lines", "percent", "report_lines", "span_text"]

BARS = " ▁▂▃▄▅▆▇█"
WIDTH = 72
SHOWN = 10


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Lines of plain text."""
    formats = sorted(set(report["log"]["files"].values()))
    span = f", {report['since']} to {report['until']}" if report["since"] else ""
    came, denied = counted(report["requests"], "request"), counted(report["clients_denied"], "client")
    yield f"{came} of {counted(report['clients'], 'client')}{span} ({', '.join(formats) or 'empty'})"
    yield f"{report['denied']:,} denied ({percent(report['denied_ratio'])}), of {denied}"
    yield from (f"note: {each}" for each in remarks(report))
    yield ""
    yield from table(("rule", "limit", "requests", "denied", "", "clients", "would deny", "first"), _rules(report))
    if report["denied"]:
        yield from ("", *_timeline(report["timeline"], report["step_s"]), "")
        yield from table(("most limited", "requests", "denied", "by"), _clients(report))
    if report["effect"] is not None:
        yield from ("", *effect_lines(report["effect"]))
    if report["log"]["examples"]:
        yield from ("", "lines that could not be read:")
        yield from (_printable(f"  {each['file']}: {each['line']}") for each in report["log"]["examples"])


def effect_lines(effect: Mapping[str, Any]) -> Iterator[str]:
    """What a change would have done."""
    yield (
        f"newly denied: {effect['newly_denied']:,} of {effect['requests']:,} requests "
        f"({percent(effect['newly_denied_ratio'])}), of {counted(effect['clients_newly_denied'], 'client')}"
    )
    before, after = effect["denied_before"], effect["denied_after"]
    yield f"newly allowed: {effect['newly_allowed']:,}; denied before {before:,}, after {after:,}"
    for each in effect["most"][:SHOWN]:
        plan = f" (plan {each['plan']})" if each["plan"] else ""
        yield f"  {_printable(each['client'])}{plan}: {each['newly_denied']:,}"


def counted(count: int, name: str) -> str:
    """`1 client`, `2,000 clients`."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def percent(ratio: float) -> str:
    """0.0123 is 1.2 %; what is not nothing never looks like nothing."""
    return f"{ratio * 100:.1f} %" if ratio >= 0.001 or not ratio else "under 0.1 %"


def span_text(seconds: int) -> str:
    """300 is `5 min`."""
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds % size == 0:
            return f"{seconds // size} {name}"
    return f"{seconds} s"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns below their heads: text to the left, numbers to the right."""
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    right = [index > 0 and all(map(_is_number, column)) for index, column in enumerate(zip(*rows, strict=True))]
    for row in (heads, *rows):
        yield "  ".join(map(_aligned, row, widths, right)).rstrip()


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell in ("", "-")


def _aligned(cell: str, width: int, to_right: bool) -> str:
    return cell.rjust(width) if to_right else cell.ljust(width)


def _rules(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            each["rule"], each["limit"], f"{each['requests']:,}", f"{each['denied']:,}", percent(each["denied_ratio"]),
            f"{each['clients_denied']:,}", f"{each['would_deny']:,}" if each["would_deny"] else "-",
            each["first"] or "-",
        )
        for each in report["rules"]
    ]  # fmt: skip


def _clients(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        (_printable(each["client"]), f"{each['requests']:,}", f"{each['denied']:,}", ", ".join(each["rules"]))
        for each in report["most_limited"][:SHOWN]
    ]


def _timeline(steps: Sequence[Mapping[str, Any]], step_s: int) -> Iterator[str]:
    """A line of bars, between when it begins and ends."""
    per = -(-len(steps) // WIDTH)
    sums = [sum(step["denied"] for step in steps[at : at + per]) for at in range(0, len(steps), per)]
    most = max(sums)
    yield f"denied by time, {most:,} at most in {span_text(per * step_s)}:"
    yield "".join(BARS[-(-count * (len(BARS) - 1) // most)] for count in sums).rstrip()
    yield f"{steps[0]['at']} … {steps[-1]['at']}"


def _printable(text: str) -> str:
    """A log may hold anything; a terminal is shown no controls."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)
