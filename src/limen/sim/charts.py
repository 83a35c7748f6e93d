"""Charts as SVG that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

__all__ = ["bars", "timeline"]

WIDTH, HEIGHT, FOOT = 960, 180, 22
ROW, LABEL = 22, 260


def timeline(steps: Sequence[Mapping[str, Any]], title: str) -> str:
    """Requests along time as bars, with what was denied in front."""
    most = max((step["requests"] for step in steps), default=0)
    if not most:
        return ""
    width = WIDTH / len(steps)
    drawn = "".join(_step(step, at * width, width, most) for at, step in enumerate(steps))
    first, last = escape(steps[0]["at"]), escape(steps[-1]["at"])
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + FOOT}" role="img" aria-label="{escape(title, quote=True)}">'
        f"<title>{escape(title)}</title>{drawn}"
        f'<text x="0" y="{HEIGHT + 16}">{first}</text>'
        f'<text x="{WIDTH}" y="{HEIGHT + 16}" text-anchor="end">{last}</text>'
        f'<text x="{WIDTH}" y="12" text-anchor="end">at most {most:,}</text></svg>'
    )


def bars(rows: Sequence[tuple[str, int]], title: str) -> str:
    """A bar for each row, beside its name and its number."""
    most = max((count for _, count in rows), default=0)
    if not most:
        return ""
    drawn = "".join(_bar(name, count, at * ROW, most) for at, (name, count) in enumerate(rows))
    return (
        f'<svg viewBox="0 0 {WIDTH} {len(rows) * ROW}" role="img" aria-label="{escape(title, quote=True)}">'
        f"<title>{escape(title)}</title>{drawn}</svg>"
    )


def _step(step: Mapping[str, Any], x: float, width: float, most: int) -> str:
    hint = f"{step['at']}: {step['requests']:,} requests, {step['denied']:,} denied"
    shown = max(width - 0.5, 0.4)
    parts = [("came", step["requests"]), ("denied", step["denied"])]
    drawn = "".join(
        f'<rect class="{kind}" x="{x:.1f}" y="{HEIGHT - tall:.1f}" width="{shown:.1f}" height="{tall:.1f}"/>'
        for kind, tall in ((kind, max(count * HEIGHT / most, 1)) for kind, count in parts if count)
    )
    return f"<g><title>{escape(hint)}</title>{drawn}</g>" if drawn else ""


def _bar(name: str, count: int, y: int, most: int) -> str:
    length = max(1.0, count * (WIDTH - LABEL - 90) / most) if count else 0.0
    short = name if len(name) <= 38 else name[:37] + "…"
    return (
        f"<g><title>{escape(name)}: {count:,}</title>"
        f'<text x="{LABEL - 8}" y="{y + 15}" text-anchor="end">{escape(short)}</text>'
        f'<rect class="denied" x="{LABEL}" y="{y + 3}" width="{length:.1f}" height="{ROW - 8}"/>'
        f'<text x="{LABEL + length + 6:.1f}" y="{y + 15}">{count:,}</text></g>'
    )
