"""Draws what each algorithm lets through, by asking it: `.venv/bin/python docs/timelines.py` redraws algorithms.md.

A picture of a limiter that was drawn by hand shows what its author believes. These come from the limiter itself under
a clock that is moved, and a test fails when the page shows anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from limen import Limiter, Rule
from limen.testing import ManualClock

PAGE = Path(__file__).with_name("algorithms.md")
BLOCK = re.compile(r"(<!-- drawn: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

LIMIT = "10/minute"
RULES = {
    "token_bucket": Rule("bucket", limit=LIMIT),
    "fixed_window": Rule("fixed", limit=LIMIT, algorithm="fixed_window"),
    "calendar minute": Rule("calendar", limit="10/calendar minute"),
    "sliding_window": Rule("sliding", limit=LIMIT, algorithm="sliding_window"),
    "sliding_log": Rule("log", limit=LIMIT, algorithm="sliding_log"),
}
NEVER_MORE = {
    "token_bucket": "20: capacity + refill · time",
    "fixed_window": "20: twice the limit",
    "calendar minute": "20: twice the limit",
    "sliding_window": "20: twice the limit",
    "sliding_log": "10: the limit",
}
"""In any 60 seconds. This is theory; the figures beside it are counted."""

FULL_MINUTE = 1_800_000_000.0
HALF_PAST = FULL_MINUTE + 30
"""Seconds since 1970: the clock on the wall when a picture begins."""

Answers = dict[str, list[bool]]


def pictures() -> dict[str, str]:
    """Everything that is drawn, by the name under which the page holds it."""
    return {"steady": steady(), "edge": edge(), "most": most()}


def ask(moments: Iterable[float], begin: float = FULL_MINUTE) -> Answers:
    """What a client that is new at `begin` is answered by each algorithm, asking for one token at each moment."""
    clock = ManualClock()
    answers: Answers = {name: [] for name in RULES}
    with Limiter(rules=RULES.values(), clock=clock) as limiter:
        for moment in moments:
            clock.set(begin + moment)
            for name, rule in RULES.items():
                answers[name].append(limiter.check("acme", rule.id).allowed)
    return answers


def steady() -> str:
    """Three minutes, a request every two seconds."""
    lines = [row("", "".join(f"{minute}:00".ljust(30) for minute in range(3)) + "3:00")]
    for name, answers in ask((2 * step for step in range(90)), HALF_PAST).items():
        lines.append(row(name, f"{bar(answers)}  {sum(answers)} of 90"))
    return "\n".join(lines)


def edge() -> str:
    """Four seconds around the end of a minute, ten requests a second: by a new client, and by one that came before."""
    moments = [58 + step / 10 for step in range(40)]
    new, known = ask(moments), ask([0, *moments])
    lines = [
        row("", "nobody was there before".ljust(46) + "one request at 0:00 besides"),
        row("", "".join(f"0:58{' ' * 16}1:00{' ' * 22}" for _ in range(2))),
    ]
    for name in RULES:
        right = known[name][1:]
        lines.append(row(name, f"{bar(new[name])}  {sum(new[name]):2}  {bar(right)}  {sum(right):2}"))
    return "\n".join(lines)


def most() -> str:
    """A table of the most that greedy clients got, whenever they began."""
    lines = ["| | in a second | in 60 s | in 60 s never more than | in an hour |", "| --- | --- | --- | --- | --- |"]
    hour = ask(step / 2 for step in range(7200))
    tries = [times_let_through(first, rest) for first in (False, True) for rest in (0, 12, 24, 36, 48, 54, 59)]
    for name in RULES:
        second, minute = (max(most_within(times[name], span) for times in tries) for span in (1, 60))
        lines.append(f"| `{name}` | {second} | {minute} | {NEVER_MORE[name]} | {sum(hour[name])} |")
    return "\n".join(lines)


def times_let_through(first: bool, rest: int) -> dict[str, list[float]]:
    """When a client got something that asks at first or not, rests, and then takes all it gets for over a minute."""
    greedy = [rest + step / 2 for step in range(1, 140) for _ in range(12)]
    moments = [0, *greedy] if first else greedy
    answers = ask(moments)
    return {name: [at for at, passed in zip(moments, answers[name], strict=True) if passed] for name in RULES}


def most_within(times: Sequence[float], seconds: float) -> int:
    """The most of these that lie in any interval of so many seconds, its end not counted."""
    return max(sum(start <= at < start + seconds for at in times[first:]) for first, start in enumerate(times))


def bar(answers: Iterable[bool]) -> str:
    return "".join("█" if passed else "·" for passed in answers)


def row(name: str, rest: str) -> str:
    return f"    {name:17}{rest}".rstrip()


def redrawn(page: str, drawn: Mapping[str, str]) -> str:
    """The page with these pictures in their places."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{drawn[found[2]]}\n\n{found[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(redrawn(PAGE.read_text(), pictures()))
