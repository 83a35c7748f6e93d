"""What `limen up` shows to somebody who has nothing yet: an API to protect, a client, a rule, and three commands."""

from __future__ import annotations

import json
from typing import Any

from limen.admin.service import AdminService

__all__ = ["DEMO_KEY", "banner", "demo_upstream", "seed_demo"]

DEMO_KEY = "limen-demo-key"
DEMO_CLIENT = "demo"
DEMO_RULE = {"id": "demo", "match": {"path": "/**"}, "key_by": ["client"], "limit": "5/minute", "on_failure": "open"}


async def demo_upstream(scope: Any, receive: Any, send: Any) -> None:
    """An API that answers every request with what it saw."""
    if scope["type"] != "http":
        return
    body = json.dumps({"hello": "from the demo API", "method": scope["method"], "path": scope["path"]}).encode() + b"\n"
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def seed_demo(service: AdminService) -> None:
    """Put the demo rule and client into a database that has no rules."""
    _, rules = await service.rules()
    if not rules:
        await service.put_rule("demo", DEMO_RULE)
    if await service.client(DEMO_CLIENT) is None:
        await service.put_client(DEMO_CLIENT, {"plan": "free", "api_keys": [DEMO_KEY]})


def banner(gateway: str, admin: str, upstream: str, store: str, needs_token: bool = False) -> str:
    """What to see, and what to paste; `needs_token`: the admin API asks for one."""
    request = f"curl -isS -H 'X-API-Key: {DEMO_KEY}' '{gateway}/hello'"
    spent = f"curl -isS -H 'X-API-Key: {DEMO_KEY}' '{gateway}/hello?try=[1-6]'"
    change = json.dumps(
        {"match": {}, "key_by": ["client"], "capacity": 100, "refill_per_sec": 50, "on_failure": "open"}
    )
    token = '-H "Authorization: Bearer $LIMEN_ADMIN_TOKEN" ' if needs_token else ""
    known = "; it asks for a token (limen tokens create)" if needs_token else ""
    raised = (
        f"curl -sS -w '\\n' -X PUT {token}-H 'Content-Type: application/json' -d '{change}' '{admin}/admin/rules/demo'"
        f" --next -isS -H 'X-API-Key: {DEMO_KEY}' '{gateway}/hello'"
    )
    return f"""\
Limen is up. Ctrl-C stops it.

  gateway    {gateway}   in front of {upstream}
  admin API  {admin}   (/admin/rules, /v1/check, /metrics){known}
  store      {store}
  demo key   {DEMO_KEY}

Paste these, one after the other:

# a request, with its rate fields
{request}

# more than five in a minute: the last ones are refused with 429 and Retry-After
{spent}

# a higher limit, in force at once
{raised}
"""
