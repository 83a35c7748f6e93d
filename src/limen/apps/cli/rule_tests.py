"""`limen rules test`: what rules do, tried offline, without a store or a database."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, Token

from limen.apps.cli import DONE, NO
from limen.apps.cli.options import AsJson
from limen.apps.cli.rule_report import Report, Tried, Warned

if TYPE_CHECKING:
    from limen.rules.case import Case
    from limen.rules.case_parse import CaseFile
    from limen.rules.ruleset import RuleSet

__all__ = ["print_schema", "try_rules"]


def _said(kind: type, tokens: Sequence[Token]) -> Path | None:
    """A path that was said here. The setting `rules` is what `limen up` begins with, and no test is about that."""
    return Path(tokens[0].value) if tokens[0].source == "cli" else None


def try_rules(
    file: Annotated[tuple[Path, ...], Parameter(name="FILE")],
    /,
    *,
    rules: Annotated[Path | None, Parameter(converter=_said, show_env_var=False)] = None,
    strict: Annotated[bool, Parameter(negative="")] = False,
    junit: Path | None = None,
    as_json: AsJson = False,
) -> int:
    """Try what rules do, and look for rules that never decide. Offline: no store and no database is asked.

    Exit status 1: a test has failed; or, with --strict, there was a warning.

    Args:
        file: Files of tests, which name their rules or hold them. A file of rules is looked at too.
        rules: The rules, for files that do not name any.
        strict: Warnings count as failures.
        junit: Write the outcome as JUnit XML too.
        as_json: Print JSON.
    """
    report = _report(file, rules)
    if junit is not None:
        junit.write_bytes(report.to_junit())
    print(json.dumps(report.to_json()) if as_json else "\n".join(report.lines()))
    return NO if report.failed or (strict and report.warnings) else DONE


def print_schema() -> None:
    """Print the JSON Schema of files of rules and of tests, for editors that complete and check what is written."""
    from importlib.resources import files

    print((files("limen.rules") / "schema.json").read_text(), end="")


def _report(files: tuple[Path, ...], rules: Path | None) -> Report:
    from limen.rules.case_parse import case_file, cases_from
    from limen.rules.checks import findings
    from limen.rules.parse import rules_from_mappings
    from limen.rules.ruleset import RuleSet

    tried, warnings, untested = list[Tried](), dict[Warned, None](), dict[str, None]()
    for path in files:
        tests = case_file(path.read_bytes(), os.fspath(path))
        source = _source(tests, path, rules)
        ruleset = RuleSet(rules_from_mappings(_documents(source), source.file, source.lines))
        done = [_tried(tests.file, case, ruleset) for case in cases_from(tests, ruleset)]
        met = frozenset[str]().union(*(each.met for each in done))
        place = {rule.id: index for index, rule in enumerate(ruleset.rules)}
        for finding in findings(ruleset.rules):
            warnings[Warned(finding, source.file, source.lines.get(("rules", place[finding.rule])))] = None
        untested |= {rule.id: None for rule in ruleset.rules if done and rule.mode != "off" and rule.id not in met}
        tried += done
    return Report(tried, list(warnings), list(untested))


def _source(tests: CaseFile, path: Path, rules: Path | None) -> CaseFile:
    """The file that holds the rules."""
    from limen.rules.case_parse import case_file

    if rules is not None and tests.rules is not None:
        raise _usage(f"{path} says which rules it tests; leave out --rules, or 'rules:' in the file")
    if isinstance(tests.rules, list):
        return tests
    found = path.parent / tests.rules if isinstance(tests.rules, str) else rules
    if found is None:
        raise _usage(f"{path} does not say which rules it tests; write 'rules: rules.yaml' in it, or give --rules")
    return case_file(found.read_bytes(), os.fspath(found))


def _documents(source: CaseFile) -> Sequence[object]:
    """The rules of a file that must hold them itself."""
    if not isinstance(source.rules, list):
        raise _usage(f"{source.file} holds no rules; write 'rules:' and below it one '- id: …' for each")
    return source.rules


def _tried(file: str, case: Case, ruleset: RuleSet) -> Tried:
    from limen.apps.rule_trial import tried
    from limen.errors import Problem, RuleError, UsageError
    from limen.rules.case_judge import judged

    try:
        found = tried(case, ruleset)
    except UsageError as error:
        raise RuleError([Problem(str(error), file=file, line=case.line)]) from error
    return Tried(file, case, judged(case, found), found.met)


def _usage(sentence: str) -> Exception:
    from limen.errors import UsageError

    return UsageError(sentence)
