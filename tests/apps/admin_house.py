"""A whole service in this process, without sockets: its admin API, and who may use it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from limen.admin.callers import ROLES
from limen.admin.service import AdminService
from limen.apps.admission import Admission
from limen.apps.backend import Backend
from limen.apps.doors import service_door
from limen.apps.guarding import Guarding
from limen.apps.settings import Listen, Shared
from limen.apps.way_in import WayIn

__all__ = ["BOOTSTRAP", "HERE", "OUTSIDE", "PROXY", "House", "house", "open_house", "opened", "shared"]

BOOTSTRAP = "canary-of-the-bootstrap-token"
PROXY = Admission(token=BOOTSTRAP, identity_header="X-Forwarded-Email", identity_from=("10.0.0.0/8",))
OUTSIDE = Listen(host="0.0.0.0", port=8090)
HERE = Listen(port=8090)


class House(NamedTuple):
    door: Any
    way_in: WayIn
    service: AdminService
    tokens: dict[str, str]
    """Role to token."""

    def client(self, peer: str = "192.0.2.7", **fields: str) -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(self.door, client=(peer, 5), raise_app_exceptions=False)
        return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8090", headers=fields)

    def as_role(self, role: str) -> httpx2.AsyncClient:
        return self.client(Authorization=f"Bearer {self.tokens[role]}")


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(store="memory://", rules_db=f"sqlite:///{tmp_path}/rules.db", state=tmp_path)


@asynccontextmanager
async def opened(shared: Shared, listen: Listen, admission: Admission) -> AsyncIterator[House]:
    async with (
        Backend(shared, "service") as backend,
        WayIn(backend, listen, admission) as way_in,
        Guarding(backend) as guarding,
    ):
        yield House(service_door(backend, way_in, guarding), way_in, guarding.service, {})


@asynccontextmanager
async def open_house(shared: Shared) -> AsyncIterator[House]:
    """It can be reached from elsewhere, has a rule, and for each role somebody who has it."""
    async with opened(shared, OUTSIDE, PROXY) as house:
        for role in ROLES:
            house.tokens[role] = (await house.way_in.tokens.create({"name": f"the {role}", "role": role})).text
        await house.service.put_rule("search", {"limit": "100/minute"})
        yield house


@pytest.fixture
async def house(shared: Shared) -> AsyncIterator[House]:
    async with open_house(shared) as house:
        yield house
