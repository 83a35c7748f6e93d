"""What is odd about a rule is told when it is put, and keeps nothing from being put."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from limen import AsyncLimiter
from limen.admin.http_api import admin_app
from limen.admin.repository import Repository
from limen.admin.service import AdminService

WIDE = {"match": {"path": "/v1/**"}, "limit": "60/minute"}
NARROW = {"match": {"path": "/v1/search"}, "limit": "100/minute"}
TOLD = (
    "rule 'narrow' never decides: rule 'wide' covers all of its requests, "
    "and what that lets through is within this limit"
)


@pytest.fixture
async def client(sqlite_repository: Repository) -> AsyncIterator[httpx2.AsyncClient]:
    async with AsyncLimiter("memory://") as limiter:
        transport = httpx2.ASGITransport(admin_app(AdminService(sqlite_repository), limiter))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


async def put(client: httpx2.AsyncClient, rule: str, document: Any, query: str = "") -> Any:
    answer = await client.put(f"/admin/rules/{rule}{query}", json=document)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


async def test_a_rule_that_never_decides_is_put_and_told_of(client: httpx2.AsyncClient) -> None:
    assert "warnings" not in await put(client, "wide", WIDE)
    assert (await put(client, "narrow", NARROW, "?dry_run=1"))["warnings"] == [TOLD]
    made = await put(client, "narrow", NARROW)
    assert made == {"id": "narrow", **NARROW, "version": 1, "warnings": [TOLD]}
    again = await put(client, "narrow", {**made, "limit": "30/minute"})
    assert again == {"id": "narrow", **NARROW, "limit": "30/minute", "version": 2}


async def test_a_rule_that_makes_another_pointless_is_told_of(client: httpx2.AsyncClient) -> None:
    await put(client, "narrow", NARROW)
    assert (await put(client, "wide", WIDE))["warnings"] == [TOLD]


async def test_rules_that_are_odd_and_not_touched_are_no_news(client: httpx2.AsyncClient) -> None:
    await put(client, "wide", WIDE)
    await put(client, "narrow", NARROW)
    assert "warnings" not in await put(client, "other", {"match": {"path": "/v2/**"}, "limit": "5/minute"})


async def test_many_rules_at_once_are_told_of_together(sqlite_repository: Repository) -> None:
    edited = await AdminService(sqlite_repository).apply(
        {"wide": {"id": "wide", **WIDE}, "narrow": {"id": "narrow", **NARROW}}
    )
    assert (set(edited.done), edited.warnings) == ({"wide", "narrow"}, (TOLD,))
