"""TLS, with certificates made here. The embedded Valkey cannot speak it, so the server is Redis alone."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from limen.engine.aio import AsyncLimiter
from limen.rules.model import Rule
from tests.redis7 import redis_server
from tests.topologies.servers import port_nobody_uses, wait_for

Opened = Callable[..., Awaitable[AsyncLimiter]]
RULES = [Rule("r", limit="9/day")]


class Papers:
    """An authority, and what it has signed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
        self.sign("server", "subjectAltName=IP:127.0.0.1")
        self.sign("stranger", "subjectAltName=DNS:elsewhere.example")
        self.sign("client", "subjectAltName=DNS:limen")

    def path(self, name: str) -> str:
        return str(self._folder / name)

    def sign(self, name: str, subject: str) -> None:
        (self._folder / f"{name}.ext").write_text(subject)
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        self._openssl("req", *curve, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        authority = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        self._openssl(
            "x509", "-req", "-in", f"{name}.csr", *authority, "-out", f"{name}.crt", "-extfile", f"{name}.ext"
        )

    def _run(self, *words: str) -> None:
        self._openssl(*words, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=limen test authority")

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self._folder, check=True, capture_output=True, timeout=30)


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("papers"))


def tls_server(papers: Papers, folder: Path, name: str, clients: str, *more: str) -> Any:
    options = ["--tls-cert-file", papers.path(f"{name}.crt"), "--tls-key-file", papers.path(f"{name}.key")]
    options += ["--tls-ca-cert-file", papers.path("ca.crt"), "--tls-auth-clients", clients]
    return redis_server(folder, *options, "--requirepass", "p@ss", *more)


@pytest.fixture(scope="module")
def tls_port(papers: Papers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with tls_server(papers, tmp_path_factory.mktemp("tls"), "server", "optional") as port:
        yield port


async def test_a_server_whose_certificate_is_trusted_decides(papers: Papers, tls_port: int, opened: Opened) -> None:
    for scheme in ("valkeys", "rediss"):
        limiter = await opened(f"{scheme}://:p@ss@127.0.0.1:{tls_port}/0?tls_ca={papers.path('ca.crt')}", RULES)
        assert (await limiter.check(scheme, "r")).remaining == 8


@pytest.mark.parametrize(("options", "remaining"), [("", None), ("?tls_verify=none", 8)])
async def test_a_certificate_of_nobody_is_refused_unless_that_is_wished(
    tls_port: int, opened: Opened, caplog: pytest.LogCaptureFixture, options: str, remaining: int | None
) -> None:
    limiter = await opened(f"valkeys://:p@ss@127.0.0.1:{tls_port}{options}", RULES)
    decision = await limiter.check(f"acme{options}", "r")
    if remaining is None:
        assert decision.degraded
        assert "name the certificates to trust with ?tls_ca=FILE" in caplog.text
    else:
        assert decision.remaining == remaining
        assert decision.source == "store"


async def test_a_certificate_for_another_name_is_refused(
    papers: Papers, tmp_path: Path, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    with tls_server(papers, tmp_path, "stranger", "no") as port:
        limiter = await opened(f"valkeys://:p@ss@127.0.0.1:{port}?tls_ca={papers.path('ca.crt')}", RULES)
        assert (await limiter.check("acme", "r")).degraded
        assert "CERTIFICATE_VERIFY_FAILED" in caplog.text


async def test_a_server_may_ask_for_our_certificate(papers: Papers, tmp_path: Path, opened: Opened) -> None:
    with tls_server(papers, tmp_path, "server", "yes") as port:
        url = f"valkeys://:p@ss@127.0.0.1:{port}?tls_ca={papers.path('ca.crt')}"
        ours = f"&tls_cert={papers.path('client.crt')}&tls_key={papers.path('client.key')}"
        with_ours = await opened(url + ours, RULES)
        assert (await with_ours.check("acme", "r")).source == "store"
        without = await opened(url, RULES)
        assert (await without.check("acme", "r")).degraded


async def test_many_at_once_over_tls(papers: Papers, tls_port: int, opened: Opened) -> None:
    limiter = await opened(
        f"valkeys://:p@ss@127.0.0.1:{tls_port}?tls_ca={papers.path('ca.crt')}", [Rule("many", limit="1000/day")]
    )
    for _ in range(300):
        await limiter.check("crowd", "many")
    assert (await limiter.peek("crowd", "many")).remaining == 700
    assert limiter._store.node.connections == 1


async def test_a_cluster_over_tls(papers: Papers, tmp_path: Path, opened: Opened) -> None:
    """One node with all slots: it tells of itself the port that speaks TLS."""
    bus = str(port_nobody_uses())
    more = ("--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port", bus)
    with tls_server(papers, tmp_path, "server", "optional", *more) as port:
        ca = papers.path("ca.crt")
        with redis.Redis("127.0.0.1", port, ssl=True, ssl_ca_certs=ca, password="p@ss") as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
            await asyncio.to_thread(wait_for, lambda: _is_ok(client), "the cluster has all slots")
        limiter = await opened(f"valkeys+cluster://:p@ss@127.0.0.1:{port}?tls_ca={ca}", RULES)
        found = [await limiter.check(f"c{at}", "r") for at in range(10)]
        assert {each.source for each in found} == {"store"}


def _is_ok(client: redis.Redis) -> bool:
    return b"cluster_state:ok" in client.execute_command("CLUSTER", "INFO")
