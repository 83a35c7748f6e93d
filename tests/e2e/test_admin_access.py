"""A service as a process, and who gets into its admin API over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from limen.admin.repository import Repository
from limen.admin.token_service import MadeToken, TokenService

SHARED = ("--store", "memory://", "--poll-s", "0.2")


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'rules.db'}"


async def token(database: str, **order: Any) -> MadeToken:
    async with Repository(database) as repository:
        return await TokenService(repository).create({"name": "ann", "role": "editor", **order})


async def eventually(condition: Callable[[], Awaitable[Any]], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.01)


async def test_S35_a_public_service_opens_to_right_tokens_until_they_are_revoked_and_to_no_guess(
    limen: Callable[..., Any], database: str, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    ann = await token(database)
    env = {"LIMEN_ADMIN_TOKEN": "canary-of-the-settings"}
    service = limen("service", *SHARED, "--rules-db", database, "--host", "0.0.0.0", ready="service on", env=env)

    async def status(given: str | None, **fields: str) -> int:
        headers = fields if given is None else {"Authorization": f"Bearer {given}", **fields}
        async with http.get(f"{service.url}/admin/whoami", headers=headers) as answer:
            return answer.status

    assert await status(ann.text) == 200
    assert await status(ann.text, Host="limen.example.com") == 200
    assert await status(None) == 401
    guesses = [await status("canary-of-a-guess") for _ in range(40)]
    assert guesses[:10] == [401] * 10
    assert 429 in guesses, "forty take less than three minutes"
    assert await status("canary-of-the-settings") == 200
    async with Repository(database) as repository:
        await TokenService(repository).revoke(ann.token.id)

    async def is_out() -> bool:
        return await status(ann.text) != 200

    await eventually(is_out)
    bob = await token(database, name="bob", role="viewer")

    async def is_in() -> bool:
        return await status(bob.text) == 200

    await eventually(is_in)
    said = "\n".join(service.lines) + await asyncio.to_thread((tmp_path / f"stderr-{service.port}.txt").read_text)
    for secret in (ann.text, bob.text, "canary-of-a-guess", "canary-of-the-settings"):
        assert secret not in said


async def test_S36_a_service_of_this_machine_answers_no_page_of_somebody_else(
    limen: Callable[..., Any], database: str, http: aiohttp.ClientSession
) -> None:
    service = limen("service", *SHARED, "--rules-db", database, ready="service on")

    async def put(**fields: str) -> int:
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        body = '{"limit": "0/minute"}'
        async with http.put(f"{service.url}/admin/rules/a?dry_run=1", data=body, headers=headers) as answer:
            return answer.status

    assert await put(Content_Type="text/plain", Origin="https://evil.example") == 403
    assert await put(Sec_Fetch_Site="cross-site") == 403
    assert await put(Host="evil.example") == 421
    assert await put(Origin=service.url) == 200
    assert await put() == 200


async def test_a_front_proxy_on_the_same_machine_names_the_author(
    limen: Callable[..., Any], database: str, http: aiohttp.ClientSession
) -> None:
    identity = ("--identity-header", "X-Forwarded-Email", "--identity-from", "127.0.0.1", "--identity-role", "editor")
    service = limen("service", *SHARED, "--rules-db", database, *identity, ready="service on")
    headers = {"X-Forwarded-Email": "ann@example.com", "X-Limen-Request": "1", "X-Limen-Reason": "launch"}
    body = '{"limit": "5/minute"}'
    async with http.put(f"{service.url}/admin/rules/a", data=body, headers=headers) as answer:
        assert answer.status == 201
    async with http.get(f"{service.url}/admin/rules/a") as answer:
        assert answer.status == 401
    async with Repository(database) as repository:
        (version,) = await repository.versions("a")
    assert (version.author, version.reason) == ("ann@example.com", "launch")
