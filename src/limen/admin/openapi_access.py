"""What the OpenAPI document says about who may do what, and about the reason of a change: the same for every route."""

from __future__ import annotations

from typing import Any

from limen.admin.callers import needed_role
from limen.admin.openapi import PROBLEMS
from limen.admin.signing import LONGEST_REASON, ROLE

__all__ = ["add_access"]

Json = dict[str, Any]

SCHEME = "HTTPBearer"
BEARER: Json = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of `limen tokens create`, or the admin token of the settings.",
}
TEXT: Json = {"type": "string", "maxLength": LONGEST_REASON}
SIGNING: list[Json] = [
    {"name": "reason", "in": "query", "schema": TEXT, "description": "why; it is kept with the change"},
    {"name": "x-limen-reason", "in": "header", "schema": TEXT, "description": "the same, as a field"},
    {
        "name": "confirm",
        "in": "query",
        "schema": {"type": "boolean", "default": False},
        "description": "I have seen what this does, and want it all the same",
    },
]
METHODS = ("get", "head", "post", "put", "patch", "delete")
REFUSALS = {400, 401, 403, 408, 421, 422, 429, 500, 503}
"""What any route may answer before it has looked at anything."""


def add_access(document: Json) -> Json:
    """The same document; each operation with its role, its refusals, and the parameters of a signature."""
    document.setdefault("components", {}).setdefault("securitySchemes", {})[SCHEME] = BEARER
    for path in document["paths"].values():
        for method in METHODS:
            if method in path:
                _complete(method.upper(), path[method])
    return document


def _complete(method: str, operation: Json) -> None:
    operation[ROLE] = needed_role(method, operation.get(ROLE))
    operation["security"] = [{SCHEME: []}]
    known = {parameter["name"] for parameter in operation.get("parameters", ())}
    responses = operation.setdefault("responses", {})
    for status in REFUSALS:
        responses.setdefault(str(status), PROBLEMS[status])
    if method == "PUT":
        responses.setdefault("201", responses["200"] | {"description": "It was not there before"})
    if "propose" in known:
        responses.setdefault("202", {"description": "It waits for a second person; Location says where"})
    if "dry_run" in known and method != "DELETE":
        responses.setdefault("200", {"description": "What would be done"})
    if "if-none-match" in known and method == "GET":
        responses.setdefault("304", {"description": "It is as you know it"})
    if method not in ("GET", "HEAD"):
        operation["parameters"] = [
            *operation.get("parameters", ()), *(each for each in SIGNING if each["name"] not in known)
        ]  # fmt: skip
