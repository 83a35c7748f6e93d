"""The admin API about what was: versions of rules, the way back to them, and the audit log."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Annotated

from limen.admin.history_bodies import entry_body, history_body, rollback_from, version_body
from limen.admin.http_io import answer, problem, read_json
from limen.admin.openapi_history import ROLLBACK_BODY
from limen.admin.precondition import Precondition, precondition
from limen.admin.problems import problem_reply
from limen.admin.put_reply import put_reply
from limen.admin.service import AdminService
from limen.admin.signing import signature
from limen.errors import MissingExtra

try:
    from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
except ImportError as error:
    raise MissingExtra("the admin API", "service") from error

__all__ = ["add_history_routes"]

MOST_VERSIONS, MOST_ENTRIES = 200, 1000
Version = Annotated[int, Path(ge=1, lt=2**31)]
VersionsAtMost = Annotated[int, Query(ge=1, le=MOST_VERSIONS)]
EntriesAtMost = Annotated[int, Query(ge=1, le=MOST_ENTRIES)]
Before = Annotated[int | None, Query(ge=1, lt=2**53, description="only what has a lower number")]


def if_match(if_match: Annotated[str | None, Header()] = None) -> Precondition:
    return precondition(if_match, None)


class _HistoryRoutes:
    def __init__(self, service: AdminService) -> None:
        self._service = service

    async def history(self, rule_id: str, before: Before = None, limit: VersionsAtMost = 50) -> Response:
        """What a rule was, newest first: who changed it, when, why, and what the change did. Deleted rules too."""
        versions = await self._service.versions(rule_id)
        if not versions:
            return _missing(f"There never was a rule {rule_id!r}.")
        return answer(await asyncio.to_thread(history_body, rule_id, versions, before, limit))

    async def version(self, rule_id: str, version: Version) -> Response:
        """What a rule was at one version."""
        versions = await self._service.versions(rule_id)
        for older, each in zip([None, *versions], versions, strict=False):
            if each.version == version:
                return answer({"rule": rule_id, **version_body(each, older)})
        return _missing(f"There is no version {version} of a rule {rule_id!r}.")

    async def rollback(
        self,
        request: Request,
        rule_id: str,
        condition: Annotated[Precondition, Depends(if_match)],
        dry_run: bool = False,
    ) -> Response:
        """Put a rule back to what it was, as a new version. A deleted rule comes back."""
        version, reason = rollback_from(await read_json(request))
        by = signature(request)
        by = by if reason is None else by._replace(reason=reason)
        put = await self._service.rollback(rule_id, version, condition, dry_run, by)
        if put is None:
            return _missing(f"There is no version {version} of a rule {rule_id!r}.")
        return put_reply(put, dry_run)

    async def audit(self, before: Before = None, limit: EntriesAtMost = 100) -> Response:
        """Who did what, when and why, newest first. For more, ask again with `before` = the last `seq`."""
        entries = await self._service.audit(before, limit)
        return answer({"entries": [entry_body(entry) for entry in entries]})


def add_history_routes(router: APIRouter, service: AdminService) -> None:
    """Add `/rules/{rule_id}/history`, `/versions/{version}` and `/rollback`, and `/audit`."""
    routes, tags, rule = _HistoryRoutes(service), list[str | Enum](["history"]), "/rules/{rule_id}"
    router.add_api_route(f"{rule}/history", routes.history, methods=["GET"], tags=tags)
    router.add_api_route(f"{rule}/versions/{{version}}", routes.version, methods=["GET"], tags=tags)
    extra = ROLLBACK_BODY | {"responses": {"201": {"description": "It was gone, and is there again"}}}
    router.add_api_route(f"{rule}/rollback", routes.rollback, methods=["POST"], tags=tags, openapi_extra=extra)
    router.add_api_route("/audit", routes.audit, methods=["GET"], tags=tags)


def _missing(sentence: str) -> Response:
    return problem(problem_reply(404, sentence))
