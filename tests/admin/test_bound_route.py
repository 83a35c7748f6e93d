"""`GET /admin/rules/{id}/bound`: the number that `limen rules show` prints, beside the rule and not in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from limen import AsyncLimiter
from limen.admin.http_api import admin_app
from limen.admin.repository import Repository
from limen.admin.service import AdminService


@pytest.fixture
async def client(sqlite_repository: Repository) -> AsyncIterator[httpx2.AsyncClient]:
    app = admin_app(AdminService(sqlite_repository), AsyncLimiter("memory://"))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://limen") as client:
        for rule, fields in {"tiny": {"limit": "2/minute"}, "free": {"limit": "unlimited"}}.items():
            assert (await client.put(f"/admin/rules/{rule}", json=fields)).status_code == 201
        yield client


async def test_the_bound_follows_the_number_of_gateways(client: httpx2.AsyncClient) -> None:
    for gateways, ratio in ((1, 0.1), (2, 0.1), (6, 2.0)):
        answer = await client.get("/admin/rules/tiny/bound", params={"gateways": gateways})
        assert (answer.status_code, answer.json()["rule"]) == (200, "tiny")
        assert answer.json()["bound"]["ratio"] == pytest.approx(ratio)
        assert answer.json()["bound"]["gateways"] == gateways
    assert (await client.get("/admin/rules/tiny/bound")).json()["bound"]["ratio"] == pytest.approx(0.1)


async def test_what_get_shows_put_takes_back(client: httpx2.AsyncClient) -> None:
    shown = (await client.get("/admin/rules/tiny")).json()
    assert (await client.put("/admin/rules/tiny", json=shown)).status_code == 200


async def test_rules_without_a_bound_and_rules_that_are_not_there(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/admin/rules/free/bound")).json() == {"rule": "free", "bound": None}
    assert (await client.get("/admin/rules/nothing/bound")).status_code == 404
    for gateways in ("0", "x"):
        assert (await client.get("/admin/rules/tiny/bound", params={"gateways": gateways})).status_code == 422
