"""Access logs, decided again: who would have been limited, when, and under which rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from limen.rules.effect import Effect
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet
from limen.sim.fields import counted_by, fields_of, headers_of, read_by
from limen.sim.formats import find_format, log_format
from limen.sim.order import Batches, in_order, merged
from limen.sim.player import Player
from limen.sim.preview import Comparison, Traced
from limen.sim.reading import LogFile, open_log
from limen.sim.record import KeyedBy, LogFormat, Record, Wanted
from limen.sim.tally import Tally

__all__ = ["Progress", "Reading", "Replay", "compare_by_log", "replay"]

Progress = Callable[[int, int | None], None]
"""Is told how many bytes of the logs were read, and of how many, if that is known."""

MOST_SHOWN = 5
SHOWN = 160
FIRST_LOOKED_AT = 1000


def nothing(done: int, size: int | None) -> None:
    """Nobody looks."""


@dataclass
class Reading:
    """What came of reading logs.

    Attributes:
        files: by name, the format that each is in.
        lines: that hold a request.
        unreadable: that hold none.
        examples: the first of those: (file, line).
        damaged: files that end before their end: (file, why).
        late: lines that came later than others by more than the window.
        most_late_us: the farthest that one was behind.
        missing: fields of a request that rules match on and no line has: these rules cannot apply.
        by_address: fields that rules count by and no line has: these rules count by the address.
    """

    files: dict[str, str] = field(default_factory=dict)
    lines: int = 0
    unreadable: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)
    damaged: list[tuple[str, str]] = field(default_factory=list)
    late: int = 0
    most_late_us: int = 0
    missing: dict[str, list[str]] = field(default_factory=dict)
    by_address: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Replay:
    """Everything that is to be told."""

    ruleset: RuleSet
    reading: Reading
    tally: Tally
    effect: Effect | None = None
    """Beside other rules, if there were any."""


def replay(
    ruleset: RuleSet,
    logs: Sequence[str | Path],
    *,
    format_name: str | None = None,
    keyed_by: KeyedBy = "client",
    before: RuleSet | None = None,
    progress: Progress = nothing,
) -> Replay:
    """Decide every request of some logs by these rules, at the time that it came.

    Args:
        ruleset: the rules.
        logs: paths; `-` is standard input.
        format_name: of all of them; by default found out from the first lines of each.
        keyed_by: `client`: clients have the name that the log has for them, if any; `ip`: all go by their address.
        before: other rules: what going from them to `ruleset` would have done is told too.
        progress: is told how far it is, after each block.

    Raises:
        UsageError: a log cannot be opened, or its format is not known.
    """
    tally, reading = Tally(), Reading()
    player = Player(ruleset, tally.known)
    comparison = None if before is None else Comparison(before, ruleset)
    for batch in _requests(logs, ruleset, before, format_name, keyed_by, reading, progress):
        tally.came(batch)
        _play(batch, player, tally)
        if comparison is not None:
            for at_us, request in batch:
                comparison.add(Traced(at_us, request))
    player.finish()
    return Replay(ruleset, reading, tally, None if comparison is None else comparison.effect())


def compare_by_log(before: RuleSet, after: RuleSet, logs: Sequence[str | Path]) -> Effect:
    """What a change would have done to the requests of some logs.

    Raises:
        UsageError: a log cannot be opened, or its format is not known.
    """
    comparison = Comparison(before, after)
    for batch in _requests(logs, after, before, None, "client", Reading(), nothing):
        for at_us, request in batch:
            comparison.add(Traced(at_us, request))
    return comparison.effect()


def _play(batch: Sequence[Record], player: Player, tally: Tally) -> None:
    play, decided = player.play, tally.decided
    for at_us, request in batch:
        decision = play(at_us, request)
        if decision is not None:
            decided(at_us, request, decision)


def _requests(
    logs: Sequence[str | Path],
    ruleset: RuleSet,
    before: RuleSet | None,
    format_name: str | None,
    keyed_by: KeyedBy,
    reading: Reading,
    progress: Progress,
) -> Iterator[list[Record]]:
    rules = list({**(before.by_id if before else {}), **ruleset.by_id}.values())
    wanted = Wanted(keyed_by, headers_of(rules))
    missing, by_address = _Missing(read_by(rules, fields_of)), _Missing(read_by(rules, counted_by))
    with ExitStack() as stack:
        files = [stack.enter_context(closing(open_log(log))) for log in logs]

        def tell() -> None:
            sizes = [file.size for file in files]
            progress(sum(file.done for file in files), None if None in sizes else sum(filter(None, sizes)))

        looks = missing, by_address
        read = [Batches(_batches(file, format_name, wanted, reading, looks, tell)) for file in files]
        ordered = in_order(merged(read))
        yield from ordered
        reading.late, reading.most_late_us = ordered.late, ordered.most_late_us
        reading.missing, reading.by_address = missing.wanted, by_address.wanted


def _batches(
    file: LogFile,
    format_name: str | None,
    wanted: Wanted,
    reading: Reading,
    looks: Sequence[_Missing],
    tell: Callable[[], None],
) -> Iterator[list[Record]]:
    """The requests of one log."""
    written: LogFormat | None = log_format(format_name, wanted) if format_name else None
    for block in file.blocks():
        written = written or find_format(block, wanted, file.name)
        reading.files[file.name] = written.name
        found = written.parse(block)
        _note(reading, file.name, len(found.records), found.unreadable)
        for each in looks:
            each.look(written, found.records)
        tell()
        if found.records:
            yield found.records
    reading.unreadable += file.overlong
    if file.damage:
        reading.damaged.append((file.name, file.damage))


def _note(reading: Reading, name: str, lines: int, unreadable: Sequence[str]) -> None:
    reading.lines += lines
    reading.unreadable += len(unreadable)
    room = MOST_SHOWN - len(reading.examples)
    reading.examples += [(name, line[:SHOWN]) for line in unreadable[: max(0, room)]]


class _Missing:
    """Fields that rules look at, as long as no line was seen that has them.

    Args:
        wanted: rules by field.
    """

    def __init__(self, wanted: dict[str, list[str]]) -> None:
        self.wanted = wanted

    def look(self, written: LogFormat, records: Sequence[Record]) -> None:
        """These were read. Of each block the first thousand are looked at."""
        for name in [name for name in self.wanted if "*" in written.fields or name in written.fields]:
            if any(_has(request, name) for _, request in records[:FIRST_LOOKED_AT]):
                del self.wanted[name]


def _has(request: Request, name: str) -> bool:
    return name[7:] in request.headers if name.startswith("header.") else bool(getattr(request, name))
