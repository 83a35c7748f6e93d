"""What came of rule tests: as text, as JSON, and in the form that build servers read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from limen.rules.case import Case
    from limen.rules.case_judge import Failure
    from limen.rules.checks import Finding

__all__ = ["Report", "Tried", "Warned"]


class Tried(NamedTuple):
    """A test, and what was not as it should be."""

    file: str
    case: Case
    failures: list[Failure]
    met: frozenset[str]
    """The rules that apply to one of its requests."""

    def to_json(self) -> dict[str, Any]:
        failures = [failure._asdict() for failure in self.failures]
        return {"name": self.case.name, "file": self.file, "line": self.case.line, "failures": failures}


class Warned(NamedTuple):
    """Something odd about a rule, and where that rule is."""

    finding: Finding
    file: str
    line: int | None

    def to_json(self) -> dict[str, Any]:
        return {**self.finding._asdict(), "message": str(self.finding), "file": self.file, "line": self.line}

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.finding}"


class Report(NamedTuple):
    """What came of everything."""

    tried: list[Tried]
    warnings: list[Warned]
    untested: list[str]
    """Rules that apply to no request of a test."""

    @property
    def failed(self) -> int:
        return sum(bool(each.failures) for each in self.tried)

    def to_json(self) -> dict[str, Any]:
        tests = [each.to_json() for each in self.tried]
        warnings = [each.to_json() for each in self.warnings]
        return {"failed": self.failed, "tests": tests, "warnings": warnings, "untested": self.untested}

    def lines(self) -> list[str]:
        """For people."""
        return _lines(self)

    def to_junit(self) -> bytes:
        """As JUnit XML."""
        return _as_junit(self)


def _lines(report: Report) -> list[str]:
    lines = [line for each in report.tried for line in _lines_of(each)]
    lines += [f"warning: {warned}" for warned in report.warnings]
    if report.untested:
        lines.append(f"no test meets {', '.join(report.untested)}")
    tests = f"{len(report.tried)} test{'' if len(report.tried) == 1 else 's'}"
    count = f", {len(report.warnings)} warning{'' if len(report.warnings) == 1 else 's'}" if report.warnings else ""
    return [*lines, f"{tests}, {report.failed} failed{count}"]


def _lines_of(each: Tried) -> list[str]:
    if not each.failures:
        return [f"ok    {each.case.name}"]
    place = f"{each.file}:{each.case.line}"
    told = [
        f"        {failure.field}: expected {failure.expected}; found {failure.found}  ({each.file}:{failure.line})"
        for failure in each.failures
    ]
    return [f"FAIL  {each.case.name}  ({place})", *told]


def _as_junit(report: Report) -> bytes:
    """The form that build servers read."""
    from xml.etree import ElementTree

    count = {"tests": str(len(report.tried)), "failures": str(report.failed)}
    suite = ElementTree.Element("testsuite", {"name": "limen rules test", **count})
    for each in report.tried:
        case = ElementTree.SubElement(suite, "testcase", {"classname": each.file, "name": _printable(each.case.name)})
        for failure in each.failures:
            message = f"{failure.field}: expected {failure.expected}; found {failure.found}"
            place = f"{each.file}:{failure.line}"
            ElementTree.SubElement(case, "failure", {"message": _printable(message)}).text = place
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))


def _printable(text: str) -> str:
    """XML has no control characters."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)
