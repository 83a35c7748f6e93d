"""What the OpenAPI document says beyond what the routes say themselves."""

from __future__ import annotations

from typing import Any

__all__ = ["CLIENT_BODY", "DESCRIPTION", "DRILL_BODY", "GRANT_BODY", "PROBLEMS", "RESET_BODY", "RULE_BODY"]

Json = dict[str, Any]

DESCRIPTION = """Rules and clients of a Limen deployment. Changes reach every gateway within seconds.

Each rule has a version, shown as `ETag`; send it back as `If-Match` and nobody's change gets lost.
`?dry_run=1` checks everything and changes nothing. Errors are `application/problem+json`.
"""

TEXT: Json = {"type": "string"}
TEXTS: Json = {"type": "array", "items": TEXT}
TEXT_OR_TEXTS: Json = {"oneOf": [TEXT, TEXTS]}

MATCH: Json = {
    "type": "object",
    "description": "Everything given must hold; nothing given matches all.",
    "additionalProperties": False,
    "properties": {
        "methods": TEXT_OR_TEXTS,
        "path": {**TEXT, "description": "`*` one segment, `**` the rest, `{name}` captures a segment"},
        "host": TEXT_OR_TEXTS,
        "plan": TEXT_OR_TEXTS,
        "client": TEXT_OR_TEXTS,
        "ip": {**TEXT_OR_TEXTS, "description": "networks such as 10.0.0.0/8"},
        "header": {"type": "object", "additionalProperties": TEXT_OR_TEXTS},
    },
}

RULE: Json = {
    "type": "object",
    "description": "A limit, as `limit` or as `capacity` and `refill_per_sec`; everything else may be left out.",
    "properties": {
        "id": {**TEXT, "description": "as in the address"},
        "match": MATCH,
        "key_by": {**TEXTS, "default": ["client"]},
        "algorithm": {"enum": ["token_bucket", "fixed_window", "sliding_window", "sliding_log", "concurrency"]},
        "limit": {**TEXT, "examples": ["100/minute", "20/second burst 100", "unlimited"]},
        "capacity": {"type": "integer", "minimum": 0, "description": "whole tokens; 0 refuses everything"},
        "refill_per_sec": {"type": "number", "minimum": 0},
        "cost": {"oneOf": [{"type": "integer", "minimum": 0}, {"type": "object"}], "default": 1},
        "on_failure": {"enum": ["open", "closed"], "default": "open"},
        "mode": {"enum": ["enforce", "shadow", "off"], "default": "enforce"},
        "rollout": {"type": "integer", "minimum": 0, "maximum": 100, "default": 100},
        "candidate": {**TEXT, "description": "a limit to try beside this one; it stops nobody"},
        "carry_over": {"enum": ["as-is", "proportional", "additive", "reset"], "default": "as-is"},
        "lease": {"oneOf": [{"enum": ["off", "auto"]}, {"type": "object"}], "default": "off"},
        "regions": {"enum": ["local"], "default": "local"},
        "colocate": {**TEXT, "description": "a label: rules that share it are decided in one step"},
        "tags": TEXTS,
        "public_name": TEXT,
        "version": {"type": "integer", "description": "the version that you read: the same as If-Match"},
        "warnings": {**TEXTS, "readOnly": True, "description": "what is odd about it, when something is"},
    },
    "examples": [
        {"match": {"path": "/v1/search/**"}, "key_by": ["client"], "limit": "100/minute", "on_failure": "open"},
        {"match": {}, "key_by": ["client"], "capacity": 10, "refill_per_sec": 1.5, "on_failure": "closed"},
    ],
}

CLIENT: Json = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "plan": {"type": ["string", "null"]},
        "api_keys": {
            "type": "array",
            "items": {"type": "string", "minLength": 8, "maxLength": 256},
            "description": "All keys of the client from now on; left out, it keeps those that it has. Never shown.",
        },
    },
}

RESET: Json = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"rule": {"type": ["string", "null"], "description": "left out: all rules"}},
}

GRANT: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["client", "rule", "tokens"],
    "properties": {
        "client": TEXT,
        "rule": TEXT,
        "tokens": {"type": "integer", "minimum": 1, "maximum": 1_000_000_000, "description": "on top of its limit"},
        "for": {
            "oneOf": [{"type": "number", "exclusiveMinimum": 0}, TEXT],
            "description": "seconds, or as 90s, 15m, 1h, 1d; at most 30 days",
            "default": "1h",
        },
    },
    "examples": [{"client": "acme", "rule": "search", "tokens": 50, "for": "1h"}],
}

DRILL: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["what", "percent", "seconds"],
    "properties": {
        "what": {"enum": ["store-down"]},
        "percent": {"type": "number", "exclusiveMinimum": 0, "maximum": 100, "description": "of the clients"},
        "seconds": {
            "oneOf": [{"type": "number", "exclusiveMinimum": 0}, TEXT],
            "description": "seconds, or as 90s, 15m; at most an hour",
        },
        "reason": {**TEXT, "maxLength": 256, "description": "for the log of every gateway"},
    },
    "examples": [{"what": "store-down", "percent": 10, "seconds": 60, "reason": "game day"}],
}

PROBLEM: Json = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": TEXT,
        "title": TEXT,
        "status": {"type": "integer"},
        "detail": TEXT,
        "problems": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "rule": {"type": ["string", "null"]},
                    "field": {"type": ["string", "null"]},
                    "message": TEXT,
                },
            },
        },
    },
}


def _body(schema: Json, required: bool = True) -> Json:
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}


RULE_BODY = _body(RULE)
CLIENT_BODY = _body(CLIENT)
RESET_BODY = _body(RESET, required=False)
GRANT_BODY = _body(GRANT)
DRILL_BODY = _body(DRILL)

_MEANINGS = {
    400: "not JSON, or it can be read in several ways",
    401: "the token is missing, wrong or too old",
    403: "the role is not enough for this, or the page of another site sent it",
    404: "there is nothing of that name",
    408: "the body did not arrive in time",
    409: "the state stands against the change",
    412: "somebody changed it meanwhile",
    413: "larger than 1 MiB",
    421: "without a token: Host does not name this machine",
    422: "a field is wrong; `problems` says which",
    429: "too many wrong tokens came from this address; Retry-After says when the next may",
    500: "a mistake of ours; the log says which",
    503: "the rules database or the store does not answer",
}
PROBLEMS: dict[int | str, Json] = {
    status: {"description": meaning, "content": {"application/problem+json": {"schema": PROBLEM}}}
    for status, meaning in _MEANINGS.items()
}
