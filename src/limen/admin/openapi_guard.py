"""What the OpenAPI document says of previews, proposals and watches."""

from __future__ import annotations

from typing import Any

from limen.admin.openapi import RULE
from limen.admin.signing import ROLE

__all__ = ["FOR_APPROVERS", "PREVIEW_BODY", "PROPOSAL_BODY"]

Json = dict[str, Any]

DELETE: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["delete"],
    "properties": {"delete": {"const": True, "description": "what deleting the rule would do"}},
}
PROPOSAL: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["rules"],
    "properties": {
        "rules": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {"oneOf": [RULE, {"type": "null", "description": "the rule is to be deleted"}]},
        }
    },
    "examples": [{"rules": {"search": {"limit": "50/minute"}, "old": None}}],
}


def _body(schema: Json) -> Json:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


FOR_APPROVERS: Json = {ROLE: "approver"}
PREVIEW_BODY: Json = {ROLE: "viewer", **_body({"anyOf": [RULE, DELETE]})}
PROPOSAL_BODY: Json = _body(PROPOSAL)
