"""The JSON that the admin API shows of single clients, and what the OpenAPI document says of it. Pure."""

from __future__ import annotations

from typing import Any

from limen.admin.standing_records import StoredBlock, StoredFlag, StoredOverride

__all__ = [
    "BLOCK_BODY", "FLAGS_BODY", "FLAG_BODY", "OVERRIDE_BODY", "block_body", "flag_body", "override_body",
]  # fmt: skip

Json = dict[str, Any]

SIGNED = ("until", "reason", "author", "updated_at")


def block_body(block: StoredBlock) -> Json:
    """A block, or somebody who is allowed; times are Unix times in seconds."""
    return {"id": block.id, "kind": block.kind, block.by: block.name, **_signed(block)}


def flag_body(flag: StoredFlag) -> Json:
    return {"client": flag.client, "over_quota": True, "retry_after": flag.retry_after, **_signed(flag)}


def override_body(override: StoredOverride) -> Json:
    return {"rule": override.rule, override.by: override.name, "limit": override.limit, **_signed(override)}


def _signed(row: StoredBlock | StoredFlag | StoredOverride) -> Json:
    return {name: getattr(row, name) for name in SIGNED}


TEXT: Json = {"type": "string"}
ENDS: Json = {
    "for": {
        "oneOf": [{"type": "number", "exclusiveMinimum": 0}, TEXT],
        "description": "seconds, or as 90s, 15m, 1h, 1d",
    },
    "until": {
        "oneOf": [{"type": "number"}, TEXT],
        "description": "instead of `for`: Unix seconds, or a time such as 2030-01-31T12:00:00Z",
    },
    "reason": {**TEXT, "maxLength": 256, "description": "for operators; no client sees it"},
}

BLOCK: Json = {
    "type": "object",
    "additionalProperties": False,
    "description": "One of client, user and ip. Without an end it lasts until it is deleted.",
    "properties": {
        "client": {**TEXT, "minLength": 1, "maxLength": 256},
        "user": {**TEXT, "minLength": 1, "maxLength": 256},
        "ip": {**TEXT, "description": "an address, or a network such as 192.0.2.0/24 or 2001:db8::/48"},
        "kind": {"enum": ["block", "allow"], "default": "block", "description": "allow: not limited at all"},
        **ENDS,
    },
    "examples": [{"ip": "192.0.2.0/24", "reason": "scraping", "for": "1h"}],
}
FLAG_FIELDS: Json = {
    "over_quota": {"type": "boolean", "description": "false takes the flag away"},
    "retry_after": {"type": "integer", "minimum": 1, "description": "seconds that the client is told to wait"},
    **ENDS,
}
FLAG: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["over_quota"],
    "properties": FLAG_FIELDS,
    "examples": [{"over_quota": True, "for": "1d"}],
}
FLAGS: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["flags"],
    "properties": {
        "flags": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1000,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["client", "over_quota"],
                "properties": {"client": TEXT, **FLAG_FIELDS},
            },
        }
    },
    "examples": [{"flags": [{"client": "acme", "over_quota": True, "for": "1d"}]}],
}
OVERRIDE: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["limit"],
    "properties": {
        "limit": {
            "oneOf": [TEXT, {"const": 0}],
            "description": "as in a rule, and of the same kind as the rule's: 500/minute, unlimited, 0/minute",
        },
        **ENDS,
    },
    "examples": [{"limit": "500/minute", "for": "7d"}],
}


def _body(schema: Json) -> Json:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


BLOCK_BODY, FLAG_BODY, FLAGS_BODY, OVERRIDE_BODY = map(_body, (BLOCK, FLAG, FLAGS, OVERRIDE))
