"""The admin API about processes: who runs, and which outage they rehearse."""

from __future__ import annotations

from enum import Enum

from limen.admin.bodies import fleet_body
from limen.admin.drills import drill_body
from limen.admin.http_io import answer, problem, read_json
from limen.admin.openapi import DRILL_BODY
from limen.admin.problems import problem_reply
from limen.admin.service import AdminService
from limen.admin.signing import signature
from limen.errors import MissingExtra

try:
    from fastapi import APIRouter, Request, Response
except ImportError as error:
    raise MissingExtra("the admin API", "service") from error

__all__ = ["add_fleet_routes"]


class _FleetRoutes:
    def __init__(self, service: AdminService) -> None:
        self._service = service

    async def list_gateways(self) -> Response:
        """Every process that decides: which rules it has, and when it was heard of."""
        return answer(fleet_body(await self._service.fleet()))

    async def get_drill(self) -> Response:
        """The outage that is rehearsed now, if any."""
        fleet = await self._service.fleet()
        return answer({"drill": fleet.drill and drill_body(fleet.drill, fleet.drill_s)})

    async def start_drill(self, request: Request) -> Response:
        """Decide about a share of the clients as if the store were away, on every gateway and for a time."""
        return answer(drill_body(await self._service.start_drill(await read_json(request), signature(request))))

    async def end_drill(self, request: Request) -> Response:
        """End what is rehearsed before its time."""
        if await self._service.end_drill(signature(request)) is None:
            return problem(problem_reply(404, "No outage is being rehearsed."))
        return Response(status_code=204)


def add_fleet_routes(router: APIRouter, service: AdminService) -> None:
    """Add `/gateways` and `/drill`."""
    routes, tags = _FleetRoutes(service), list[str | Enum](["fleet"])
    router.add_api_route("/gateways", routes.list_gateways, methods=["GET"], tags=tags)
    router.add_api_route("/drill", routes.get_drill, methods=["GET"], tags=tags)
    router.add_api_route("/drill", routes.start_drill, methods=["POST"], tags=tags, openapi_extra=DRILL_BODY)
    router.add_api_route("/drill", routes.end_drill, methods=["DELETE"], tags=tags, status_code=204)
