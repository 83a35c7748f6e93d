"""Text to a plain document that knows its lines: the strict part of YAML 1.2, and JSON, which lies inside it.

Only `true` and `false` are truth values (`off`, `no` and `on` are text), `1e3` is a number, `010` is ten and `10:30`
is text. Anchors, tags, repeated keys, more than 1 MiB or 20 levels are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from limen.errors import Problem, RuleError

__all__ = ["MAX_BYTES", "MAX_DEPTH", "Lines", "document_to_text", "read_document"]

MAX_BYTES = 1 << 20
MAX_DEPTH = 20
MAX_DIGITS = 300

Place = tuple[str | int, ...]
Lines = Mapping[Place, int]
"""Where things stand: `("rules", 0, "limit")` is on line 3."""

CORE_SCHEMA = (  # YAML 1.2.2, section 10.3.2
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", list("-+.")),
)

BREAKS = re.compile(r"[\x85\u2028\u2029\ufeff]")

BaseLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(BaseLoader):  # type: ignore[misc, valid-type]
    """Reads scalars in the sense of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - replaces the table of the base class


class _Dumper(yaml.SafeDumper):
    """Quotes every text that YAML 1.1 or 1.2 would read as something else."""


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Signs that YAML 1.1 takes for line breaks survive only as escapes, between double quotes."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, '"' if BREAKS.search(text) else None)


class _Constructor(SafeConstructor):
    """Takes `010` for ten."""


for _name, _pattern, _first in CORE_SCHEMA:
    for _reader in (_Loader, _Dumper):
        _reader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"(?:{_pattern})\\Z"), _first)
_Dumper.add_representer(str, _text_node)
_Constructor.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))


def read_document(text: str | bytes, file: str) -> tuple[Any, Lines]:
    """The one document in `text`, and the line of everything in it.

    Raises:
        RuleError: what makes it unreadable, with file and line.
    """
    if len(text) > MAX_BYTES:
        raise _refused(f"the document is larger than {MAX_BYTES >> 20} MiB; split it", file)
    try:
        _check_events(text, file)
        root = yaml.compose(text, Loader=_Loader)
        if root is None or root.tag == "tag:yaml.org,2002:null":
            raise _refused("the document is empty; write 'rules: []' when no rule is wanted", file, 1)
        lines: dict[Place, int] = {}
        _note_lines(root, (), lines, file)
        return _Constructor().construct_document(root), lines
    except (yaml.YAMLError, UnicodeError) as error:
        raise _unreadable(error, file) from error


def document_to_text(document: object) -> str:
    """The text that `read_document` reads back as the same document."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def _check_events(text: str | bytes, file: str) -> None:
    """Refuse anchors, tags and depth before anything is built."""
    depth = 0
    events: Iterator[Any] = yaml.parse(text, Loader=_Loader)
    for event in events:
        line = event.start_mark.line + 1
        if getattr(event, "anchor", None):  # an alias carries the name of its anchor
            raise _refused("anchors and aliases are not allowed; write the values out", file, line)
        if getattr(event, "tag", None):
            raise _refused(f"the tag {event.tag} is not allowed; leave it out", file, line)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _refused(f"nested deeper than {MAX_DEPTH} levels", file, line)


def _note_lines(node: yaml.Node, place: Place, lines: dict[Place, int], file: str) -> None:
    """Walk the tree, noting where everything stands, and refuse what JSON could not say."""
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _note_lines(item, (*place, index), lines, file)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            _note_key(key, place, lines, file)
            _note_lines(value, (*place, key.value), lines, file)
    elif node.tag == "tag:yaml.org,2002:int" and len(node.value) > MAX_DIGITS:
        raise _refused(f"a number of {len(node.value)} digits is too long", file, node.start_mark.line + 1)


def _note_key(key: yaml.Node, place: Place, lines: dict[Place, int], file: str) -> None:
    line = key.start_mark.line + 1
    if not isinstance(key, yaml.ScalarNode):
        raise _refused("the name of a field is text, not a list or mapping", file, line)
    if key.tag != "tag:yaml.org,2002:str":
        raise _refused(f"the name of a field is text; put {key.value!r} in quotes if it is one", file, line)
    if (*place, key.value) in lines:
        raise _refused(f"{key.value!r} is there twice", file, line)
    lines[*place, key.value] = line


def _unreadable(error: Exception, file: str) -> RuleError:
    mark = getattr(error, "problem_mark", None)
    message = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return _refused(f"not a readable document: {message}", file, mark.line + 1 if mark else None)


def _refused(message: str, file: str, line: int | None = None) -> RuleError:
    return RuleError([Problem(message, file=file, line=line)])
