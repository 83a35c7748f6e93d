"""Rules in the terms of a sample: where they name a client, an address or a value, they name its pseudonym."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from limen.rules.model import Rule
from limen.rules.standing import Override, Standing
from limen.sim.chunk import PATH
from limen.sim.pseudonyms import Pseudonyms

__all__ = ["blinded", "blinded_overrides", "literals_of"]


def blinded(rule: Rule, pseudonyms: Pseudonyms) -> Rule:
    """The same rule for requests that were sampled."""
    if not any({"client", "ip", "header"} & match.keys() for match in _matches(rule)):
        return rule
    document = rule.to_document()
    if document.get("match"):
        document["match"] = _match(document["match"], pseudonyms)
    if isinstance(document.get("cost"), Mapping):
        special = [_match(each, pseudonyms) for each in document["cost"].get("when", ())]
        document["cost"] = {**document["cost"], "when": special}
    return Rule(**document)


def blinded_overrides(overrides: Iterable[Override], pseudonyms: Pseudonyms) -> Standing:
    """The limits of single clients and plans, likewise."""
    return Standing(
        overrides=[
            each._replace(name=pseudonyms.name(each.name)) if each.by == "client" else each for each in overrides
        ]
    )


def literals_of(rules: Iterable[Rule]) -> dict[str, frozenset[str]]:
    """What rules name: values, by the name of the header in lower case, and segments of the path."""
    found: dict[str, frozenset[str]] = {PATH: frozenset(_segments(rules := list(rules)))}
    for match in (each for rule in rules for each in _matches(rule)):
        for name, values in (match.get("header") or {}).items():
            found[name.lower()] = found.get(name.lower(), frozenset()) | frozenset(_list(values))
    return found


def _segments(rules: Iterable[Rule]) -> Iterator[str]:
    for rule in rules:
        for match in (rule.match, *(special.match for special in rule.cost.special)):
            yield from match.path.segments if match.path else ()


def _matches(rule: Rule) -> list[Mapping[str, Any]]:
    return [rule.match.document or {}, *(special.match.document or {} for special in rule.cost.special)]


def _match(written: Mapping[str, Any], pseudonyms: Pseudonyms) -> dict[str, Any]:
    match = dict(written)
    if "client" in match:
        match["client"] = [pseudonyms.name(client) for client in _list(match["client"])]
    if "ip" in match:
        match["ip"] = [each for written in _list(match["ip"]) for each in pseudonyms.networks(written)]
    if "header" in match:  # a value that no rule named when it was sampled is there as its pseudonym
        match["header"] = {
            name: [*_list(values), *map(pseudonyms.value, _list(values))] for name, values in match["header"].items()
        }
    return match


def _list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
