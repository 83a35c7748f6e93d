"""`limen replay`: access logs under rules: who would have been limited, when, and under which rule."""

from __future__ import annotations

import contextlib
import gc
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from limen.apps.cli.options import AsJson, Whole

if TYPE_CHECKING:
    from limen.rules.ruleset import RuleSet

__all__ = ["replay"]

Format = Literal["combined", "common", "alb", "nginx-json", "envoy-json", "jsonl"]


def replay(
    *logs: Annotated[str, Parameter(allow_leading_hyphen=True)],
    rules: str,
    before: str | None = None,
    written: Annotated[Format | None, Parameter(name="--format")] = None,
    key: Literal["client", "ip"] = "client",
    top: Whole = 20,
    html: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Decide the requests of access logs by rules, at the times at which they came. Touches no store.

    Args:
        logs: Access logs, plain or gzipped; - for standard input.
        rules: A rule file, or the URL of a rules database.
        before: Other rules, likewise; what going from them to `rules` does is told too.
        written: The format of the logs; by default found out from their first lines.
        key: client: clients have the name that the log has for them, if any. ip: all go by their address.
        top: How many clients and paths are listed.
        html: Write the report to this file too, as a page with charts.
        as_json: Print JSON.
    """
    from limen.errors import UsageError
    from limen.sim.replay import replay as play
    from limen.sim.report import report_of
    from limen.sim.text_report import report_lines

    if not logs:
        raise UsageError("name one or several access logs, or - for standard input")
    gc.disable()  # nothing here is part of a cycle, and looking for cycles among millions of requests takes as long
    rulesets = _rules(rules), None if before is None else _rules(before)
    with _progress() as progress:
        found = play(rulesets[0], logs, format_name=written, keyed_by=key, before=rulesets[1], progress=progress)
    report = report_of(found, max(1, top))
    if html is not None:
        _write(html, report, f"{', '.join(logs[:3])}{'…' if len(logs) > 3 else ''} under {_without_password(rules)}")
    print(json.dumps(report) if as_json else "\n".join(report_lines(report)))


def _rules(place: str) -> RuleSet:
    """
    Raises:
        RuleError: the rules are not valid.
        RulesUnavailable: the database does not answer.
    """
    from limen.rules.parse import rules_from_text
    from limen.rules.ruleset import RuleSet

    if place.startswith(("sqlite:", "postgresql:", "postgres:")):
        return _stored_rules(place)
    return RuleSet(rules_from_text(Path(place.removeprefix("file://")).read_bytes(), place))


def _stored_rules(url: str) -> RuleSet:
    import asyncio

    from limen.admin.repository import Repository
    from limen.admin.stored_rules import ruleset_of

    async def read() -> RuleSet:
        async with Repository(url) as repository:
            snapshot = await repository.snapshot()
        return ruleset_of(snapshot.rules, snapshot.revision)

    return asyncio.run(read())


def _write(file: Path, report: dict[str, object], title: str) -> None:
    from limen.sim.html_report import html_report

    file.write_text(html_report(report, title), encoding="utf-8", errors="replace")


def _without_password(place: str) -> str:
    scheme, separator, rest = place.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else place


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int | None], None]]:
    """A bar on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done, size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = "replaying", BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, size: bar.update(task, completed=done, total=size)
