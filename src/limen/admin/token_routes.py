"""The admin API about its own tokens. For approvers: whoever can make a token can be anybody."""

from __future__ import annotations

import time
from enum import Enum
from typing import Any

from limen.admin.http_io import answer, problem, read_json
from limen.admin.problems import problem_reply
from limen.admin.signing import ROLE, caller, signature
from limen.admin.token_service import TokenService
from limen.admin.tokens import DEFAULT_LIFE, token_body
from limen.errors import MissingExtra

try:
    from fastapi import APIRouter, Request, Response
except ImportError as error:
    raise MissingExtra("the admin API", "service") from error

__all__ = ["add_token_routes"]

Json = dict[str, Any]

FOR_APPROVERS: Json = {ROLE: "approver"}
ORDER: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "role"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 64, "description": "who uses it"},
        "role": {"enum": ["viewer", "editor", "approver"]},
        "for": {
            "oneOf": [{"type": "number", "minimum": 60}, {"type": "string"}],
            "description": "seconds, or as 12h, 90d; at most 366 days",
            "default": DEFAULT_LIFE,
        },
    },
    "examples": [{"name": "ci", "role": "editor", "for": "90d"}],
}
BODY: Json = {"requestBody": {"required": True, "content": {"application/json": {"schema": ORDER}}}}


class _TokenRoutes:
    def __init__(self, tokens: TokenService) -> None:
        self._tokens = tokens

    async def whoami(self, request: Request) -> Response:
        """Who you are here, and what you may do."""
        who = caller(request)
        return answer({"author": who.author, "role": who.role})

    async def list_tokens(self) -> Response:
        """Every token: whom it stands for, until when, and when it was used last."""
        now = time.time()
        return answer({"tokens": [token_body(token, now) for token in await self._tokens.all()]})

    async def create_token(self, request: Request) -> Response:
        """Make a token. The answer shows it, and nothing ever will again."""
        made = await self._tokens.create(await read_json(request), signature(request))
        return answer({"token": made.text, **token_body(made.token, made.token.created)}, 201)

    async def revoke_token(self, request: Request, token_id: str) -> Response:
        """End a token before its time."""
        if await self._tokens.revoke(token_id, signature(request)) is None:
            return problem(problem_reply(404, "There is no token of this id."))
        return Response(status_code=204)


def add_token_routes(router: APIRouter, tokens: TokenService) -> None:
    """Add `/whoami` and `/tokens`."""
    routes, tags = _TokenRoutes(tokens), list[str | Enum](["access"])
    add = router.add_api_route
    add("/whoami", routes.whoami, methods=["GET"], tags=tags)
    add("/tokens", routes.list_tokens, methods=["GET"], tags=tags, openapi_extra=FOR_APPROVERS)
    create = FOR_APPROVERS | BODY
    add("/tokens", routes.create_token, methods=["POST"], tags=tags, status_code=201, openapi_extra=create)
    one = "/tokens/{token_id}"
    add(one, routes.revoke_token, methods=["DELETE"], tags=tags, status_code=204, openapi_extra=FOR_APPROVERS)
