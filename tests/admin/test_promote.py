"""A candidate becomes the limit: over HTTP, with everything that a change of a rule has."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from limen import AsyncLimiter
from limen.admin.http_api import admin_app
from limen.admin.promote import promoted
from limen.admin.repository import Repository
from limen.admin.service import AdminService

TRIED = {"limit": "100/minute", "candidate": "50/minute", "carry_over": "proportional"}


@pytest.fixture
async def admin(repository: Repository) -> AsyncIterator[httpx2.AsyncClient]:
    async with AsyncLimiter("memory://") as limiter:
        app = admin_app(AdminService(repository), limiter)
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as client:
            yield client


async def test_the_candidate_becomes_the_limit_as_a_new_version(admin: httpx2.AsyncClient) -> None:
    await admin.put("/admin/rules/search", json=TRIED)
    answer = await admin.post("/admin/rules/search/promote?reason=nobody+felt+it")
    assert (answer.status_code, answer.headers["etag"]) == (200, '"2"')
    assert answer.json()["limit"] == "50/minute"
    assert "candidate" not in answer.json()
    history = (await admin.get("/admin/rules/search/history")).json()["versions"]
    assert [(each["action"], each["reason"]) for each in history] == [("promote", "nobody felt it"), ("put", "")]
    (entry, *_) = (await admin.get("/admin/audit")).json()["entries"]
    assert (entry["action"], entry["subject"]) == ("rule.promote", "rule:search")


async def test_a_dry_run_shows_what_would_be(admin: httpx2.AsyncClient) -> None:
    await admin.put("/admin/rules/search", json=TRIED)
    answer = await admin.post("/admin/rules/search/promote?dry_run=1")
    assert (answer.json()["limit"], answer.json()["dry_run"]) == ("50/minute", True)
    assert (await admin.get("/admin/rules/search")).json()["limit"] == "100/minute"


async def test_what_cannot_be_promoted_is_told(admin: httpx2.AsyncClient) -> None:
    assert (await admin.post("/admin/rules/search/promote")).status_code == 404
    await admin.put("/admin/rules/search", json={"limit": "100/minute"})
    refused = await admin.post("/admin/rules/search/promote")
    assert refused.status_code == 409
    assert "no candidate" in refused.json()["detail"]
    await admin.put("/admin/rules/search", json=TRIED)
    late = await admin.post("/admin/rules/search/promote", headers={"If-Match": '"1"'})
    assert (late.status_code, late.json()["current"]) == (412, 2)
    assert (await admin.post("/admin/rules/search/promote", headers={"If-Match": '"2"'})).status_code == 200


def test_the_limit_is_replaced_however_it_was_written() -> None:
    written = {"id": "r", "capacity": 10, "refill_per_sec": 1.5, "candidate": "5/minute", "cost": 2}
    assert promoted(written) == {"id": "r", "limit": "5/minute", "cost": 2}
