"""What of a request a rule looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from limen.rules.model import Rule

__all__ = ["counted_by", "fields_of", "headers_of", "read_by"]

ALWAYS = frozenset({"method", "path"})
OF_MATCH = {"methods": "method", "path": "path", "host": "host", "plan": "plan", "client": "client", "ip": "ip"}


def fields_of(rule: Rule) -> frozenset[str]:
    """The fields of `Request` that the rule matches on, its special costs included. Headers as `header.NAME`."""
    documents = [rule.match.document or {}, *(special.match.document or {} for special in rule.cost.special)]
    return frozenset(field for document in documents for field in _matched(document))


def counted_by(rule: Rule) -> frozenset[str]:
    """The fields that the rule counts by. `ip/48` is the address, and a segment of the path is the path."""
    return frozenset("path" if part.startswith("path.") else part.lower().partition("/")[0] for part in rule.key_by)


def headers_of(rules: Iterable[Rule]) -> frozenset[str]:
    """The names, in lower case, of all headers that rules match or count by."""
    read = (field for rule in rules for field in fields_of(rule) | counted_by(rule))
    return frozenset(field[7:] for field in read if field.startswith("header."))


def read_by(rules: Iterable[Rule], fields: Callable[[Rule], frozenset[str]]) -> dict[str, list[str]]:
    """Which rules look at each field, by field; without method and path, which every request has."""
    found: dict[str, list[str]] = {}
    for rule in rules:
        for field in sorted(fields(rule) - ALWAYS):
            found.setdefault(field, []).append(rule.id)
    return found


def _matched(document: Mapping[str, object]) -> Iterable[str]:
    yield from (field for name, field in OF_MATCH.items() if name in document)
    headers = document.get("header")
    if isinstance(headers, Mapping):
        yield from (f"header.{str(name).lower()}" for name in headers)
