"""`limen explain`: why a request would pass or not, rule by rule. Nothing is spent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from limen.apps.cli import DONE, NO
from limen.apps.cli.asking import ask_limiter
from limen.apps.cli.options import DEFAULT_RULES_DB, AsJson, Secrets, until_text

if TYPE_CHECKING:
    from limen.rules.request import Request

__all__ = ["explain"]

NO_SECRETS = Secrets()


def explain(
    *,
    path: str,
    method: str = "GET",
    request_host: str = "",
    client: str | None = None,
    plan: str | None = None,
    user: str | None = None,
    ip: str | None = None,
    header: tuple[str, ...] = (),
    store: str,
    rules_db: str = DEFAULT_RULES_DB,
    secrets: Secrets = NO_SECRETS,
    as_json: AsJson = False,
) -> int:
    """Show which rules a request meets, which it does not and why, and what is in its buckets. Nothing is spent.

    Exit status 1: it would be refused.

    Args:
        path: Path of the request.
        method: Its method.
        request_host: Its Host field.
        client: Name of the client; without one it is counted by its address.
        plan: Plan of the client.
        user: Name of the user.
        ip: Address that it comes from.
        header: A field of the request, as 'Name: value'; may be given several times.
        store: URL of the counter store.
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    from limen.rules.request import Request

    request = Request(method, path, request_host, client, plan, user, ip, _headers(header))
    found = ask_limiter(store, rules_db, secrets, lambda limiter: limiter.explain(request))
    shown = found.to_json()
    print(json.dumps(shown) if as_json else "\n".join(_lines(shown, request)))
    return DONE if found.decision.allowed else NO


def _headers(lines: tuple[str, ...]) -> dict[str, str]:
    from limen.errors import UsageError

    for line in lines:
        if not line.partition(":")[0].strip() or ":" not in line:
            raise UsageError(f"a header is written 'Name: value', not {line!r}")
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _lines(shown: dict[str, Any], request: Request) -> list[str]:
    decision, rules = shown["decision"], shown["rules"]
    outcome = "would pass" if decision["allowed"] else f"would be refused ({decision['reason']})"
    rule = f" by rule {decision['rule']}" if decision["rule"] and not decision["allowed"] else ""
    counted = {"client": "client {name}", "ip": "no client, so its address {name}", "none": "no client and no address"}
    who = counted[shown["client"]["from"]].format(**shown["client"])
    return [
        f"{request.method} {request.path} {outcome}{rule}; decided by {shown['source']}, rules revision "
        f"{shown['revision']}, {shown['gateways']} gateway{'s' if shown['gateways'] != 1 else ''}",
        f"counted as: {who}",
        *_said(shown["standing"]),
        *(_line(each) for each in rules),
    ]


def _said(standing: dict[str, Any] | None) -> list[str]:
    """What an operator said that decides before any rule."""
    if standing is None:
        return []
    what = {"block": "is blocked", "allow": "is not limited", "flag": "is over its quota"}[standing["what"]]
    reason = f": {standing['reason']}" if standing.get("reason") else ""
    return [f"{standing['by']} {standing['name']} {what}{until_text(standing['until'])}{reason}"]


def _line(rule: dict[str, Any]) -> str:
    own = rule["override"]
    whose = f" for {own['by']} {own['name']}{until_text(own['until'])}" if own else ""
    if not rule["applies"]:
        return f"  {rule['rule']}: does not apply{whose}: {rule['why']}"
    version = "" if rule["version"] is None else f" version {rule['version']}"
    bound = "" if rule["bound"] is None else f"; over by at most {rule['bound']['ratio']:.3g} of it"
    mode = "" if rule["mode"] == "enforce" else f", {rule['mode']}"
    spends = f"{rule['key']} spends {rule['cost']}, {_buckets(rule)}{whose}"
    return f"  {rule['rule']}{version}{mode}: {spends}{_candidate(rule['candidate'])}{bound}"


def _candidate(trial: dict[str, Any] | None) -> str:
    if trial is None:
        return ""
    would = "would pass" if trial["allows"] else "would refuse"
    return f"; its candidate {would}, with {trial['remaining']} of {trial['limit']} left"


def _buckets(rule: dict[str, Any]) -> str:
    if rule["before"] is None:
        return "nobody knows what is left"
    before, after = rule["before"]["remaining"], rule["after"]["remaining"]
    return f"{before} of {rule['limit']} left before and {after} after"
