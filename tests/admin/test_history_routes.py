"""History, the way back, conflicts and the audit log over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from limen import AsyncLimiter
from limen.admin.http_api import admin_app
from limen.admin.repository import Repository
from limen.admin.service import AdminService

V1 = {"match": {"path": "/v1/**"}, "limit": "10/minute"}
V2 = {"match": {"path": "/v1/**"}, "limit": "20/minute"}


class Admin:
    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def __call__(self, method: str, path: str, document: Any = None, **fields: str) -> httpx2.Response:
        body = None if document is None else json.dumps(document)
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        return await self._client.request(method, f"/admin{path}", content=body, headers=headers)


@pytest.fixture
async def admin(sqlite_repository: Repository) -> AsyncIterator[Admin]:
    async with AsyncLimiter("memory://") as limiter:
        app = admin_app(AdminService(sqlite_repository), limiter)
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://limen") as client:
            yield Admin(client)


@pytest.fixture
async def changed(admin: Admin) -> Admin:
    """A rule that was put twice."""
    await admin("PUT", "/rules/search?reason=first", V1)
    await admin("PUT", "/rules/search", V2, X_Limen_Reason="more for all")
    return admin


async def test_the_history_says_who_when_why_and_what(changed: Admin) -> None:
    body = (await changed("GET", "/rules/search/history")).json()
    assert body["rule"] == "search"
    second, first = body["versions"]
    assert (second["version"], second["action"]) == (2, "put")
    assert (second["author"], second["reason"]) == ("local", "more for all")
    assert second["diff"] == [
        {"field": "limit", "kind": "raised", "before": "10/minute", "after": "20/minute", "factor": 2.0}
    ]
    assert (first["reason"], first["document"]["limit"]) == ("first", "10/minute")
    assert second["at"] >= first["at"] > 1_600_000_000
    assert (await changed("GET", "/rules/never-there/history")).status_code == 404


async def test_the_history_is_read_page_by_page(changed: Admin) -> None:
    newest = (await changed("GET", "/rules/search/history?limit=1")).json()["versions"]
    assert [each["version"] for each in newest] == [2]
    (older,) = (await changed("GET", "/rules/search/history?limit=1&before=2")).json()["versions"]
    assert (older["version"], older["diff"][0]["kind"]) == (1, "added")
    for wrong in ("limit=0", "limit=x", "before=0", "limit=100000"):
        assert (await changed("GET", f"/rules/search/history?{wrong}")).status_code == 422


async def test_one_version_can_be_read(changed: Admin) -> None:
    body = (await changed("GET", "/rules/search/versions/1")).json()
    assert (body["rule"], body["version"], body["document"]["limit"]) == ("search", 1, "10/minute")
    for nothing in ("/rules/search/versions/3", "/rules/other/versions/1"):
        assert (await changed("GET", nothing)).status_code == 404


async def test_a_rollback_answers_as_a_put_does(changed: Admin) -> None:
    answer = await changed("POST", "/rules/search/rollback", {"version": 1, "reason": "too much"}, If_Match='"2"')
    assert (answer.status_code, answer.headers["etag"]) == (200, '"3"')
    assert answer.json() == {"id": "search", **V1, "version": 3}
    newest = (await changed("GET", "/rules/search/history")).json()["versions"][0]
    assert (newest["action"], newest["reason"]) == ("rollback", "too much")
    assert (await changed("DELETE", "/rules/search")).status_code == 204
    back = await changed("POST", "/rules/search/rollback", {"version": 2})
    assert (back.status_code, back.json()["limit"]) == (201, "20/minute")


async def test_a_rollback_can_be_tried_and_refused(changed: Admin) -> None:
    tried = await changed("POST", "/rules/search/rollback?dry_run=1", {"version": 1})
    assert (tried.status_code, tried.json()["dry_run"]) == (200, True)
    assert (await changed("GET", "/rules/search")).json()["version"] == 2
    late = await changed("POST", "/rules/search/rollback", {"version": 1}, If_Match='"1"')
    assert late.status_code == 412
    assert (await changed("POST", "/rules/search/rollback", {"version": 9})).status_code == 404
    wrongs = ({}, {"version": "1"}, {"version": 0}, {"version": 1.0}, {"version": 2**40}, [], {"version": 1, "x": 1})
    for wrong in wrongs:
        assert (await changed("POST", "/rules/search/rollback", wrong)).status_code == 422, wrong
    await changed("DELETE", "/rules/search")
    gone = await changed("POST", "/rules/search/rollback", {"version": 3})
    assert gone.status_code == 422
    assert "deleted" in gone.json()["detail"]


async def test_a_412_carries_what_others_did_meanwhile(changed: Admin) -> None:
    answer = await changed("PUT", "/rules/search", {**V1, "limit": "5/minute"}, If_Match='"1"')
    assert (answer.status_code, answer.headers["content-type"]) == (412, "application/problem+json")
    body = answer.json()
    assert (body["current"], body["seen"]) == (2, 1)
    assert body["diff"] == [
        {"field": "limit", "kind": "raised", "before": "10/minute", "after": "20/minute", "factor": 2.0}
    ]
    never = await changed("PUT", "/rules/search", V1, If_Match='"77"')
    assert (never.status_code, "diff" in never.json()) == (412, False)
    assert (await changed("PUT", "/rules/search", V1, If_None_Match="*")).status_code == 412


async def test_the_audit_log_is_shown_newest_first(changed: Admin) -> None:
    await changed("PUT", "/clients/acme", {"plan": "gold", "api_keys": ["canary-key-0123"]})
    answer = await changed("GET", "/audit?limit=2")
    assert "canary" not in answer.text
    newest, before = answer.json()["entries"]
    assert (newest["action"], newest["subject"], newest["detail"]["plan"]) == ("client.put", "client:acme", "gold")
    assert (before["seq"], before["action"], before["detail"]["reason"]) == (2, "rule.put", "more for all")
    assert newest["previous"] == before["hash"]
    (oldest,) = (await changed("GET", "/audit?before=2")).json()["entries"]
    assert oldest["seq"] == 1
    assert (await changed("DELETE", "/audit")).status_code == 405
