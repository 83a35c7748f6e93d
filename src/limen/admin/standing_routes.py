"""The admin API about single clients: blocks, flags, limits of their own."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from limen.admin.http_io import answer, problem, read_json
from limen.admin.problems import problem_reply
from limen.admin.signing import signature
from limen.admin.standing_bodies import (
    BLOCK_BODY,
    FLAG_BODY,
    FLAGS_BODY,
    OVERRIDE_BODY,
    block_body,
    flag_body,
    override_body,
)  # fmt: skip
from limen.admin.standing_service import By, StandingService
from limen.errors import MissingExtra

try:
    from fastapi import APIRouter, Query, Request, Response
except ImportError as error:
    raise MissingExtra("the admin API", "service") from error

__all__ = ["add_standing_routes"]

LARGEST_ID = 2**31 - 1
Page = Annotated[int, Query(ge=1, le=1000, description="how many at most")]
AfterId = Annotated[int, Query(ge=0, le=LARGEST_ID, description="those behind this id: the last that you saw")]
AfterName = Annotated[str, Query(max_length=256, description="those behind this client: the last that you saw")]
Skip = Annotated[int, Query(ge=0, le=LARGEST_ID)]
Text = Annotated[str | None, Query(max_length=256)]
MADE = {"responses": {"201": {"description": "Nothing was said of that name before"}}}


class _BlockRoutes:
    def __init__(self, standing: StandingService) -> None:
        self._standing = standing

    async def add(self, request: Request, dry_run: bool = False) -> Response:
        """Block a client, a user or a network, or allow it: then nothing limits it.

        What was said of the same name before counts no more.
        """
        document, by = await read_json(request), signature(request)
        block, created = await self._standing.put_block(document, by, _address(request), dry_run)
        if dry_run:
            return answer({**block_body(block), "dry_run": True})
        return answer(block_body(block), 201 if created else 200)

    async def list(self, after: AfterId = 0, limit: Page = 1000, name: Text = None) -> Response:
        """Who is blocked or allowed."""
        found = await self._standing.blocks(after, limit, name)
        return answer({"blocks": [block_body(block) for block in found]})

    async def delete(self, request: Request, block_id: int) -> Response:
        """Block, or allow, somebody no more."""
        in_range = 0 < block_id <= LARGEST_ID
        if not in_range or await self._standing.take_block(block_id, signature(request)) is None:
            return _missing(f"There is no block {block_id}.")
        return Response(status_code=204)


class _FlagRoutes:
    def __init__(self, standing: StandingService) -> None:
        self._standing = standing

    async def list(self, after: AfterName = "", limit: Page = 1000) -> Response:
        """Whose quota is used up."""
        found = await self._standing.flags(after, limit)
        return answer({"flags": [flag_body(flag) for flag in found]})

    async def put_many(self, request: Request, dry_run: bool = False) -> Response:
        """Flag up to 1000 clients, or take their flags away: all of them, or none when one is not right."""
        changed = await self._standing.put_flags(await read_json(request), signature(request), dry_run)
        return answer({"changed": changed, **({"dry_run": True} if dry_run else {})})

    async def get(self, client: str) -> Response:
        flag = await self._standing.flag(client)
        return answer(flag_body(flag) if flag else {"client": client, "over_quota": False})

    async def put(self, request: Request, client: str, dry_run: bool = False) -> Response:
        """Say that the client's quota elsewhere is used up, so that every gateway refuses it; or that it is not."""
        document, by = await read_json(request), signature(request)
        flag = await self._standing.put_flag(client, document, by, dry_run)
        body = flag_body(flag) if flag else {"client": client, "over_quota": False}
        return answer({**body, "dry_run": True} if dry_run else body)

    async def delete(self, request: Request, client: str) -> Response:
        if not await self._standing.take_flag(client, signature(request)):
            return _missing(f"Client {client!r} has no flag.")
        return Response(status_code=204)


class _OverrideRoutes:
    def __init__(self, standing: StandingService) -> None:
        self._standing = standing

    async def list(self, skip: Skip = 0, limit: Page = 1000, rule: Text = None) -> Response:
        """Limits of single clients and plans."""
        found = await self._standing.overrides(skip, limit, rule)
        return answer({"overrides": [override_body(override) for override in found]})

    async def get_client(self, rule_id: str, client: str) -> Response:
        return await self._get(rule_id, "client", client)

    async def put_client(self, request: Request, rule_id: str, client: str, dry_run: bool = False) -> Response:
        """Give a client a limit of its own under a rule; what it has spent stays spent."""
        return await self._put(request, rule_id, "client", client, dry_run)

    async def delete_client(self, request: Request, rule_id: str, client: str) -> Response:
        """Let the rule's own limit hold again."""
        return await self._delete(request, rule_id, "client", client)

    async def get_plan(self, rule_id: str, plan: str) -> Response:
        return await self._get(rule_id, "plan", plan)

    async def put_plan(self, request: Request, rule_id: str, plan: str, dry_run: bool = False) -> Response:
        """Give everybody on a plan a limit of its own under a rule, a bucket each as before."""
        return await self._put(request, rule_id, "plan", plan, dry_run)

    async def delete_plan(self, request: Request, rule_id: str, plan: str) -> Response:
        """Let the rule's own limit hold again."""
        return await self._delete(request, rule_id, "plan", plan)

    async def _get(self, rule: str, by: By, name: str) -> Response:
        found = await self._standing.override(rule, by, name)
        return _none_of_its_own(rule, by, name) if found is None else answer(override_body(found))

    async def _put(self, request: Request, rule: str, by: By, name: str, dry_run: bool) -> Response:
        document, signed = await read_json(request), signature(request)
        put = await self._standing.put_override(rule, by, name, document, signed, dry_run)
        if put is None:
            return _missing(f"There is no rule {rule!r}.")
        found, created = put
        if dry_run:
            return answer({**override_body(found), "dry_run": True})
        return answer(override_body(found), 201 if created else 200)

    async def _delete(self, request: Request, rule: str, by: By, name: str) -> Response:
        if not await self._standing.take_override(rule, by, name, signature(request)):
            return _none_of_its_own(rule, by, name)
        return Response(status_code=204)


def add_standing_routes(router: APIRouter, standing: StandingService) -> None:
    """Add `/blocks`, `/flags`, `/clients/{client}/flags`, `/overrides`, before `/clients/{client}`: that takes all."""
    blocks, flags, overrides = _BlockRoutes(standing), _FlagRoutes(standing), _OverrideRoutes(standing)
    add, tags = router.add_api_route, list[str | Enum](["clients"])
    add("/blocks", blocks.list, methods=["GET"], tags=tags)
    add("/blocks", blocks.add, methods=["POST"], tags=tags, openapi_extra=BLOCK_BODY | MADE)
    add("/blocks/{block_id}", blocks.delete, methods=["DELETE"], tags=tags, status_code=204)
    add("/flags", flags.list, methods=["GET"], tags=tags)
    add("/flags", flags.put_many, methods=["PUT"], tags=tags, openapi_extra=FLAGS_BODY)
    flag = "/clients/{client:path}/flags"
    add(flag, flags.get, methods=["GET"], tags=tags)
    add(flag, flags.put, methods=["PUT"], tags=tags, openapi_extra=FLAG_BODY)
    add(flag, flags.delete, methods=["DELETE"], tags=tags, status_code=204)
    add("/overrides", overrides.list, methods=["GET"], tags=tags)
    own = "/overrides/{rule_id}/clients/{client:path}"
    add(own, overrides.get_client, methods=["GET"], tags=tags)
    add(own, overrides.put_client, methods=["PUT"], tags=tags, openapi_extra=OVERRIDE_BODY)
    add(own, overrides.delete_client, methods=["DELETE"], tags=tags, status_code=204)
    plan = "/overrides/{rule_id}/plans/{plan:path}"
    add(plan, overrides.get_plan, methods=["GET"], tags=tags)
    add(plan, overrides.put_plan, methods=["PUT"], tags=tags, openapi_extra=OVERRIDE_BODY)
    add(plan, overrides.delete_plan, methods=["DELETE"], tags=tags, status_code=204)


def _address(request: Request) -> str | None:
    """Who sends it, as far as the socket says."""
    return request.client.host if request.client else None


def _none_of_its_own(rule: str, by: By, name: str) -> Response:
    return _missing(f"There is no limit of {by} {name!r} alone under rule {rule!r}.")


def _missing(detail: str) -> Response:
    return problem(problem_reply(404, detail))
