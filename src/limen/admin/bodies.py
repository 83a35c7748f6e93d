"""The JSON that the admin API shows of what is stored. Pure."""

from __future__ import annotations

from typing import Any

from limen.admin.api_keys import fingerprint
from limen.admin.records import StoredClient, StoredRule
from limen.admin.stored_rules import document_of
from limen.errors import RuleError

__all__ = ["client_body", "rule_body"]


def rule_body(rule: StoredRule) -> dict[str, Any]:
    """The document with its version; of one that cannot be read, what is wrong with it."""
    try:
        return {**document_of(rule), "version": rule.version}
    except RuleError as error:
        return {"id": rule.id, "version": rule.version, "problems": [str(problem) for problem in error.problems]}


def client_body(client: StoredClient) -> dict[str, Any]:
    return {
        "client": client.client,
        "plan": client.plan,
        "api_keys": len(client.digests),
        "fingerprints": [fingerprint(digest) for digest in client.digests],
    }
