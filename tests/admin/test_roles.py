"""The roles that ship: a service cannot rewrite the past, a gateway cannot change a rule."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from limen.admin.records import Gateway
from limen.admin.repository import Repository
from limen.admin.service import AdminService
from limen.errors import RulesUnavailable

ROLES = Path(__file__).resolve().parents[2] / "deploy" / "rules" / "roles.sql"
LIMIT = {"limit": "10/minute"}
GATEWAY = Gateway("g", "host", 1, "gateway", 0, 1, "ready", "up", 0.0)


async def login(owner_url: str, role: str) -> str:
    """The URL by which a new user with this role reaches the database."""
    name = f"{role}_{uuid4().hex[:8]}"
    owner = await asyncpg.connect(owner_url)
    await owner.execute(ROLES.read_text())
    await owner.execute(f"CREATE USER {name} PASSWORD 'secret' IN ROLE {role}")
    await owner.close()
    return f"postgresql://{name}:secret@{owner_url.rpartition('@')[2]}"


@pytest.fixture
async def filled(postgres_url: str) -> str:
    async with await Repository.open(postgres_url) as repository:
        await AdminService(repository).put_rule("a", LIMIT)
    return postgres_url


async def test_a_service_does_everything_but_rewrite_the_past(filled: str) -> None:
    url = await login(filled, "limen")
    async with await Repository.open(url) as repository:
        service = AdminService(repository)
        await service.put_rule("a", {"limit": "20/minute"})
        await service.rollback("a", 1)
        await service.put_client("acme", {"plan": "gold", "api_keys": ["a-key-of-acme"]})
        await service.delete_client("acme")
        await repository.presence.beat(GATEWAY)
        assert (await repository.check_audit()).findings == ()
    serving = await asyncpg.connect(url)
    for table in ("audit", "rule_versions"):
        for statement in (f"UPDATE {table} SET author = 'eve'", f"DELETE FROM {table}", f"TRUNCATE {table}"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await serving.execute(statement)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await serving.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await serving.execute("UPDATE alembic_version SET version_num = ''")
    await serving.close()


async def test_a_gateway_follows_the_rules_and_changes_none(filled: str) -> None:
    url = await login(filled, "limen_gateway")
    async with await Repository.open(url) as repository:
        assert [rule.id for rule in (await repository.snapshot()).rules] == ["a"]
        assert (await repository.presence.beat(GATEWAY)).alive == 1
        await repository.presence.leave("g")
        service = AdminService(repository)
        with pytest.raises(RulesUnavailable, match="permission denied"):
            await service.put_rule("a", {"limit": "20/minute"})
        with pytest.raises(RulesUnavailable, match="permission denied"):
            await service.put_client("acme", {"plan": None})
    gateway = await asyncpg.connect(url)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await gateway.fetch("SELECT * FROM tokens")
    await gateway.close()
