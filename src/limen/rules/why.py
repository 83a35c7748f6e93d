"""Why a rule does not apply to a request: the first condition that fails, as a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from limen.core.concurrency import SlotLimit
from limen.rules.match import BUILDERS, bare_host
from limen.rules.model import Rule
from limen.rules.request import Request

__all__ = ["why_not"]


def why_not(rule: Rule, request: Request, segments: Sequence[str]) -> str | None:
    """The reason, without its full stop; None when the rule applies.

    Args:
        rule: the rule.
        request: the request.
        segments: those of its canonical path.
    """
    if rule.mode == "off":
        return "it is off"
    return _unmatched(rule, request, segments) or _uncounted(rule, request, segments)


def _unmatched(rule: Rule, request: Request, segments: Sequence[str]) -> str | None:
    match = rule.match
    document: Mapping[str, Any] = match.document or {}
    if match.path is not None and not match.path.matches(segments):
        return f"its path is {match.path.text}, that of the request is /{'/'.join(segments)}"
    for name, holds in zip((name for name in BUILDERS if name in document), match.predicates, strict=True):
        if not holds(request):
            return _failed(name, document[name], request)
    return None


def _uncounted(rule: Rule, request: Request, segments: Sequence[str]) -> str | None:
    if rule.limit is None:
        return "it limits nothing"
    if isinstance(rule.limit, SlotLimit):
        return "it limits how many run at a time, and is asked for by its name"
    if not rule.covers_key(rule.key(request, segments)):
        return f"its rollout of {rule.rollout} % has not reached this key"
    return None


def _failed(name: str, wanted: Any, request: Request) -> str:
    if name == "header":
        return _failed_header(wanted, request)
    found = {"methods": request.method, "host": bare_host(request.host)}.get(name) or getattr(request, name, None)
    return f"its {name} must be {_listed(wanted)}, and the request has {found or 'none'}"


def _failed_header(wanted: Mapping[str, Any], request: Request) -> str:
    for name, texts in wanted.items():
        found = request.headers.get(name.lower())
        if found not in ([texts] if isinstance(texts, str) else texts):
            return f"its header {name} must be {_listed(texts)}, and the request has {found or 'none'}"
    return "its headers are others"


def _listed(wanted: Any) -> str:
    return wanted if isinstance(wanted, str) else " or ".join(map(str, wanted))
