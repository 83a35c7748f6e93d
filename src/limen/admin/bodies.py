"""The JSON that the admin API shows of what is stored. Pure."""

from __future__ import annotations

from typing import Any

from limen.admin.api_keys import fingerprint
from limen.admin.drills import drill_body
from limen.admin.records import ALIVE_S, Fleet, SeenGateway, StoredClient, StoredRule
from limen.admin.stored_rules import document_of
from limen.errors import RuleError

__all__ = ["client_body", "fleet_body", "rule_body"]


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


def fleet_body(fleet: Fleet) -> dict[str, Any]:
    """Who runs, and who is behind."""
    return {
        "revision": fleet.revision,
        "alive": fleet.alive,
        "most": fleet.most,
        "drill": fleet.drill and drill_body(fleet.drill, fleet.drill_s),
        "gateways": [_gateway_body(each, fleet.revision) for each in fleet.gateways],
    }


def _gateway_body(seen: SeenGateway, revision: int) -> dict[str, Any]:
    gateway = seen.gateway
    return {
        **gateway._asdict(),
        "seen_s_ago": seen.seen_s_ago,
        "alive": seen.seen_s_ago < ALIVE_S,
        "behind": gateway.revision < revision,
    }
