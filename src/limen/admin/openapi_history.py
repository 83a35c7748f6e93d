"""What the OpenAPI document says of history and audit log."""

from __future__ import annotations

from typing import Any

__all__ = ["ROLLBACK_BODY"]

Json = dict[str, Any]

ROLLBACK: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["version"],
    "properties": {
        "version": {"type": "integer", "minimum": 1, "maximum": 2147483647, "description": "as the history shows it"},
        "reason": {"type": ["string", "null"], "maxLength": 256, "description": "the same as ?reason="},
    },
    "examples": [{"version": 3, "reason": "the new limit refused paying clients"}],
}

ROLLBACK_BODY: Json = {"requestBody": {"required": True, "content": {"application/json": {"schema": ROLLBACK}}}}
