"""The admin API about candidates."""

from __future__ import annotations

from typing import Annotated

from limen.admin.http_io import problem
from limen.admin.precondition import Precondition, precondition
from limen.admin.problems import problem_reply
from limen.admin.promote import promote
from limen.admin.put_reply import put_reply
from limen.admin.service import AdminService
from limen.admin.signing import signature
from limen.errors import MissingExtra

try:
    from fastapi import APIRouter, Depends, Header, Request, Response
except ImportError as error:
    raise MissingExtra("the admin API", "service") from error

__all__ = ["add_promote_routes"]


def if_match(if_match: Annotated[str | None, Header()] = None) -> Precondition:
    return precondition(if_match, None)


class _PromoteRoutes:
    def __init__(self, service: AdminService) -> None:
        self._service = service

    async def promote(
        self,
        request: Request,
        rule_id: str,
        condition: Annotated[Precondition, Depends(if_match)],
        dry_run: bool = False,
    ) -> Response:
        """Make the candidate of a rule its limit, as a new version."""
        put = await promote(self._service, rule_id, condition, dry_run, signature(request))
        if put is None:
            return problem(problem_reply(404, f"There is no rule {rule_id!r}."))
        return put_reply(put, dry_run)


def add_promote_routes(router: APIRouter, service: AdminService) -> None:
    """Add `/rules/{rule_id}/promote`."""
    routes = _PromoteRoutes(service)
    router.add_api_route("/rules/{rule_id}/promote", routes.promote, methods=["POST"], tags=["rules"])
