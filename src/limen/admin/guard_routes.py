"""The admin API about changes that are looked at, wait for a second person, or are watched."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any

from limen.admin.http_io import answer, problem, read_json
from limen.admin.openapi_guard import FOR_APPROVERS, PREVIEW_BODY, PROPOSAL_BODY
from limen.admin.precondition import Precondition
from limen.admin.problems import problem_reply
from limen.admin.proposals import Proposal
from limen.admin.proposing import Proposing, edits_from
from limen.admin.service import AdminService
from limen.admin.signing import signature
from limen.admin.watch_keeper import keep
from limen.errors import MissingExtra

try:
    from fastapi import APIRouter, Path, Request, Response
except ImportError as error:
    raise MissingExtra("the admin API", "service") from error

__all__ = ["add_guard_routes", "proposed"]

Number = Annotated[int, Path(ge=1, le=2**53 - 1)]


class _GuardRoutes:
    def __init__(self, service: AdminService, proposing: Proposing) -> None:
        self._service = service
        self._proposing = proposing
        self._repository = proposing.repository

    async def preview(self, request: Request, rule_id: str) -> Response:
        """What putting this document in force would do to the traffic of the last hours, and what would be said to it.

        With `{"delete": true}`: what deleting the rule would do.
        """
        document = await read_json(request)
        wanted = None if document == {"delete": True} else {} if document is None else document
        action = "delete" if wanted is None else "put"
        found = await self._service.edit({rule_id: wanted}, signature(request), action=action, dry_run=True)
        if found.review is None:
            return problem(problem_reply(404, f"There is no rule {rule_id!r}."))
        return answer({"rule": rule_id, **found.review.to_document(), "warnings": list(found.warnings)})

    async def list_proposals(self) -> Response:
        """Changes that wait for a second person, and the last ones that did; the newest first."""
        return answer({"proposals": [self._proposing.shown(each) for each in await self._proposing.recent()]})

    async def get_proposal(self, number: Number) -> Response:
        found = await self._proposing.find(number)
        return _missing(number) if found is None else answer(self._proposing.shown(found))

    async def propose(self, request: Request) -> Response:
        """Ask for a change that somebody else puts in force. It needs a reason."""
        edits = edits_from(await read_json(request))
        proposal = await self._proposing.propose(edits, signature(request), action="apply")
        return answer(self._proposing.shown(proposal), 201, _location(proposal))

    async def approve(self, request: Request, number: Number) -> Response:
        """Put a proposal of somebody else in force."""
        found = await self._proposing.approve(number, signature(request))
        return _missing(number) if found is None else answer(self._proposing.shown(found))

    async def reject(self, request: Request, number: Number) -> Response:
        """Decide against a proposal, or withdraw one's own."""
        found = await self._proposing.reject(number, signature(request))
        return _missing(number) if found is None else answer(self._proposing.shown(found))

    async def list_watches(self) -> Response:
        """Changes that are compared with what they were predicted to do, and the last ones that were."""
        return answer({"watches": [_watch_body(each._asdict()) for each in await self._repository.watches.recent()]})

    async def end_watch(self, request: Request, revision: Number) -> Response:
        """Keep a change, whatever it does from now on."""
        if not await keep(self._repository, revision, signature(request)):
            return problem(problem_reply(404, f"Nobody watches revision {revision}."))
        return Response(status_code=204)


async def proposed(
    proposing: Proposing, request: Request, rule_id: str, document: Any, condition: Precondition
) -> Response:
    """The answer to a change of one rule that is only proposed; `document` is None where it is to be deleted."""
    action = "delete" if document is None else "put"
    by = signature(request)
    found = await proposing.propose({rule_id: document}, by, action=action, conditions={rule_id: condition})
    return answer(proposing.shown(found), 202, _location(found))


def _location(proposal: Proposal) -> dict[str, str]:
    return {"Location": f"/admin/proposals/{proposal.id}"}


def add_guard_routes(router: APIRouter, service: AdminService, proposing: Proposing) -> None:
    """Add `/rules/{id}/preview`, `/proposals` and `/watches`."""
    routes, tags = _GuardRoutes(service, proposing), list[str | Enum](["guard"])
    add = router.add_api_route
    add("/rules/{rule_id}/preview", routes.preview, methods=["POST"], tags=tags, openapi_extra=PREVIEW_BODY)
    add("/proposals", routes.list_proposals, methods=["GET"], tags=tags)
    add("/proposals", routes.propose, methods=["POST"], tags=tags, status_code=201, openapi_extra=PROPOSAL_BODY)
    add("/proposals/{number}", routes.get_proposal, methods=["GET"], tags=tags)
    add("/proposals/{number}/approve", routes.approve, methods=["POST"], tags=tags, openapi_extra=FOR_APPROVERS)
    add("/proposals/{number}/reject", routes.reject, methods=["POST"], tags=tags)
    add("/watches", routes.list_watches, methods=["GET"], tags=tags)
    add("/watches/{revision}", routes.end_watch, methods=["DELETE"], tags=tags, status_code=204)


def _watch_body(watch: Mapping[str, Any]) -> dict[str, Any]:
    """A watch as JSON: the documents of before are the history's to show."""
    return {**{name: value for name, value in watch.items() if name != "before"}, "rules": sorted(watch["before"])}


def _missing(number: int) -> Response:
    return problem(problem_reply(404, f"There is no proposal {number}."))
