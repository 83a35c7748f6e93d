"""The admin API over HTTP. It only translates: `limen.admin.service` decides, and a limiter reaches the buckets."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any

from limen.admin.access import Access
from limen.admin.access_layer import OPENAPI, AccessLayer
from limen.admin.bodies import client_body, rule_body
from limen.admin.buckets import Buckets, grant_body, grant_from, rule_to_reset
from limen.admin.clients import client_name
from limen.admin.fleet_routes import add_fleet_routes
from limen.admin.guard_routes import add_guard_routes, proposed
from limen.admin.history_routes import add_history_routes
from limen.admin.http_io import answer, problem, read_json
from limen.admin.openapi import CLIENT_BODY, DESCRIPTION, GRANT_BODY, PROBLEMS, RESET_BODY, RULE_BODY
from limen.admin.openapi_access import add_access
from limen.admin.precondition import Precondition, precondition
from limen.admin.problems import conflict_reply, error_reply, problem_reply
from limen.admin.promote_routes import add_promote_routes
from limen.admin.proposing import Proposing
from limen.admin.put_reply import put_reply
from limen.admin.service import AdminService
from limen.admin.signing import require_role, signature
from limen.admin.standing_routes import add_standing_routes
from limen.admin.standing_service import StandingService
from limen.admin.stored_rules import rule_of
from limen.admin.token_routes import add_token_routes
from limen.admin.token_service import TokenService
from limen.errors import Conflict, GuardRefused, LimenError, MissingExtra
from limen.rules.bound import bound_of, bound_to_document

try:
    from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException as AnyHTTPException
    from starlette.requests import ClientDisconnect
except ImportError as error:
    raise MissingExtra("the admin API", "service") from error

__all__ = ["admin_app"]


def admin_app(
    service: AdminService,
    buckets: Buckets,
    access: Access | None = None,
    tokens: TokenService | None = None,
    proposing: Proposing | None = None,
    standing: StandingService | None = None,
) -> FastAPI:
    """The admin API as an ASGI app, with its routes under `/admin` and `/openapi.json`.

    Args:
        service: who keeps rules and clients.
        buckets: who can reach the buckets, such as an `AsyncLimiter`.
        access: who is let in; None lets everybody do everything, which is for apps that something else guards.
        tokens: who makes and revokes tokens; None leaves those routes out.
        proposing: knows what waits for a second person, and what is watched; None leaves those routes out.
        standing: who says something of single clients; None leaves those routes out.
    """
    app = FastAPI(
        title="Limen admin API",
        description=DESCRIPTION,
        version="1",
        openapi_url=OPENAPI,
        docs_url=None,  # that page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    router = _router(_Routes(service, proposing), _BucketRoutes(buckets, service), standing)
    add_fleet_routes(router, service)
    add_history_routes(router, service)
    add_promote_routes(router, service)
    if tokens is not None:
        add_token_routes(router, tokens)
    if proposing is not None:
        add_guard_routes(router, service, proposing)
    app.include_router(router)
    app.add_middleware(AccessLayer, access=access or Access(everybody=True))
    app.openapi = _documented(app)  # type: ignore[method-assign]
    app.add_exception_handler(LimenError, _on_limen_error)
    app.add_exception_handler(AnyHTTPException, _on_http_error)
    app.add_exception_handler(RequestValidationError, _on_bad_parameter)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)
    app.add_exception_handler(Exception, _on_surprise)
    return app


def _condition(
    if_match: Annotated[str | None, Header()] = None, if_none_match: Annotated[str | None, Header()] = None
) -> Precondition:
    return precondition(if_match, if_none_match)


Condition = Annotated[Precondition, Depends(_condition)]


class _Routes:
    def __init__(self, service: AdminService, proposing: Proposing | None) -> None:
        self._service = service
        self._proposing = proposing

    async def list_rules(self) -> Response:
        """All rules and the revision of the set that they are."""
        revision, rules = await self._service.rules()
        return answer({"revision": revision, "rules": [rule_body(rule) for rule in rules]})

    async def get_rule(self, rule_id: str, condition: Condition) -> Response:
        rule = await self._service.rule(rule_id)
        if rule is None:
            return _missing("rule", rule_id)
        condition._replace(none_of=None).check(f"rule {rule_id!r}", rule.version)
        if not condition.holds(rule.version):
            return Response(status_code=304, headers=_etag(rule.version))
        return answer(rule_body(rule), 200, _etag(rule.version))

    async def get_bound(self, rule_id: str, gateways: Annotated[int, Query(ge=1)] = 1) -> Response:
        """How far beyond its limit a rule can go, with so many gateways at least, and what that is made of."""
        rule = await self._service.rule(rule_id)
        if rule is None:
            return _missing("rule", rule_id)
        count = max(gateways, (await self._service.fleet()).most)
        bound = bound_of(rule_of(rule), count)
        return answer({"rule": rule_id, "bound": bound and bound_to_document(bound, count)})

    async def put_rule(
        self, request: Request, rule_id: str, condition: Condition, dry_run: bool = False, propose: bool = False
    ) -> Response:
        """Make a rule, or replace it; or propose that."""
        document = await read_json(request)
        if propose and self._proposing is not None and document is not None:
            return await proposed(self._proposing, request, rule_id, document, condition)
        put = await self._service.put_rule(rule_id, document, condition, dry_run, signature(request))
        return put_reply(put, dry_run)

    async def delete_rule(
        self, request: Request, rule_id: str, condition: Condition, dry_run: bool = False, propose: bool = False
    ) -> Response:
        if propose and self._proposing is not None:
            return await proposed(self._proposing, request, rule_id, None, condition)
        deleted = await self._service.delete_rule(rule_id, condition, dry_run, signature(request))
        return Response(status_code=204) if deleted else _missing("rule", rule_id)

    async def get_client(self, client: str) -> Response:
        """A client's plan, and fingerprints of its API keys."""
        found = await self._service.client(client)
        return _missing("client", client) if found is None else answer(client_body(found), 200, _etag(found.revision))

    async def put_client(self, request: Request, client: str, condition: Condition, dry_run: bool = False) -> Response:
        """Make a client, or replace it: its plan, and its API keys when they are given."""
        document = await read_json(request)
        found, created = await self._service.put_client(client, document, condition, dry_run, signature(request))
        if dry_run:
            return answer({**client_body(found), "dry_run": True})
        return answer(client_body(found), 201 if created else 200, _etag(found.revision))

    async def delete_client(
        self, request: Request, client: str, condition: Condition, dry_run: bool = False
    ) -> Response:
        """Delete a client. Its API keys are nobody's from then on."""
        deleted = await self._service.delete_client(client, condition, dry_run, signature(request))
        return Response(status_code=204) if deleted else _missing("client", client)


class _BucketRoutes:
    """What is done to buckets is recorded first: nothing is done that nobody could find in the audit log."""

    def __init__(self, buckets: Buckets, service: AdminService) -> None:
        self._buckets = buckets
        self._service = service

    async def reset_client(self, request: Request, client: str) -> Response:
        """Make a client's buckets full again."""
        rule, name = rule_to_reset(await read_json(request, otherwise={})), client_name(client)
        await self._service.note("bucket.reset", f"client:{name}", {"rule": rule}, signature(request))
        await self._buckets.reset(name, rule)
        return Response(status_code=204)

    async def grant(self, request: Request) -> Response:
        """Let a client spend more, on top of its limit and for a time."""
        grant = grant_from(await read_json(request))
        detail = {"rule": grant.rule, "tokens": grant.tokens, "seconds": grant.seconds}
        await self._service.note("bucket.grant", f"client:{grant.client}", detail, signature(request))
        return answer(grant_body(grant, await self._buckets.grant(*grant)))


def _router(routes: _Routes, buckets: _BucketRoutes, standing: StandingService | None) -> APIRouter:
    router = APIRouter(prefix="/admin", responses=PROBLEMS, dependencies=[Depends(require_role)])
    add = router.add_api_route
    add("/rules", routes.list_rules, methods=["GET"], tags=["rules"])
    add("/rules/{rule_id}", routes.get_rule, methods=["GET"], tags=["rules"])
    add("/rules/{rule_id}/bound", routes.get_bound, methods=["GET"], tags=["rules"])
    add("/rules/{rule_id}", routes.put_rule, methods=["PUT"], tags=["rules"], openapi_extra=RULE_BODY)
    add("/rules/{rule_id}", routes.delete_rule, methods=["DELETE"], tags=["rules"], status_code=204)
    if standing is not None:
        add_standing_routes(router, standing)
    # A client's name may be an address such as 2001:db8::/64, so it may hold a slash.
    client = "/clients/{client:path}"
    tags: list[str | Enum] = ["clients"]
    add(f"{client}/reset", buckets.reset_client, methods=["POST"], tags=tags, status_code=204, openapi_extra=RESET_BODY)
    add("/grants", buckets.grant, methods=["POST"], tags=tags, openapi_extra=GRANT_BODY)
    add(client, routes.get_client, methods=["GET"], tags=tags)
    add(client, routes.put_client, methods=["PUT"], tags=tags, openapi_extra=CLIENT_BODY)
    add(client, routes.delete_client, methods=["DELETE"], tags=tags, status_code=204)
    return router


def _documented(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """What describes the app, with all that is true of every route. Made when it is first asked for."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        return app.openapi_schema or add_access(made())

    return openapi


def _etag(version: int) -> dict[str, str]:
    return {"ETag": f'"{version}"'}


def _missing(what: str, name: str) -> Response:
    return problem(problem_reply(404, f"There is no {what} {name!r}."))


async def _on_limen_error(request: Request, error: Exception) -> Response:
    if isinstance(error, GuardRefused):
        return problem(problem_reply(409, str(error), preview=error.preview))
    if isinstance(error, Conflict):
        asked = precondition(request.headers.get("if-match"), request.headers.get("if-none-match"))
        return problem(conflict_reply(error, not asked.holds(error.current)))
    return problem(error_reply(error if isinstance(error, LimenError) else LimenError(str(error))))


async def _on_http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, AnyHTTPException)
    return problem(problem_reply(error.status_code, str(error.detail), dict(error.headers or {})))


async def _on_bad_parameter(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = [
        {"rule": None, "field": str(found["loc"][-1]), "message": f"{found['msg']}, not {found.get('input')!r}"}
        for found in error.errors()
    ]
    return problem(problem_reply(422, "A parameter of the address is wrong.", problems=problems))


async def _on_disconnect(_request: Request, _error: Exception) -> Response:
    return Response(status_code=400)  # nobody is there to read it


async def _on_surprise(_request: Request, _error: Exception) -> Response:
    return problem(problem_reply(500, "Something went wrong here that should not have; the log says what."))
