"""Errors as HTTP shows them: RFC 9457 problem documents. Pure."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, NamedTuple

from limen.errors import Conflict, LimenError, Problem, RuleError, Unavailable, UsageError

__all__ = ["Reply", "conflict_reply", "error_reply", "problem_reply"]

RETRY_AFTER_S = 5


class Reply(NamedTuple):
    status: int
    body: dict[str, Any]
    headers: dict[str, str]


def problem_reply(status: int, detail: str, headers: dict[str, str] | None = None, **members: Any) -> Reply:
    """A problem with a sentence for people, and further members for programs."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return Reply(status, {**body, **members}, headers or {})


def error_reply(error: LimenError) -> Reply:
    """What an error means over HTTP, by what the caller can do about it. Conflicts have a reply of their own."""
    if isinstance(error, RuleError):
        return problem_reply(422, "Nothing was changed.", problems=[_shown(problem) for problem in error.problems])
    if isinstance(error, UsageError):
        return problem_reply(422, str(error))
    if isinstance(error, Unavailable):
        return problem_reply(503, str(error), {"Retry-After": str(RETRY_AFTER_S)})
    return problem_reply(500, str(error))


def conflict_reply(error: Conflict, condition_failed: bool) -> Reply:
    """412 when a condition in the request does not hold, 409 when the state itself stands against the change."""
    return problem_reply(412 if condition_failed else 409, str(error), current=error.current, **error.members)


def _shown(problem: Problem) -> dict[str, Any]:
    return {"rule": problem.rule, "field": problem.field, "message": problem.message}
