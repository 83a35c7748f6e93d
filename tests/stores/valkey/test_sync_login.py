"""Who is let in, and to what: passwords, users, databases, replicas, TLS."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from limen.errors import StoreError
from tests.conftest import buckets_in
from tests.redis7 import redis_server
from tests.stores.valkey.sync_lab import admin, in_threads, started, store, take


def test_a_wrong_password_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with redis_server(tmp_path, "--requirepass", "right") as port:
        with started(f"valkey://:right@127.0.0.1:{port}") as opened:
            assert take(opened) == 1000
        with started(f"valkey://:wrong@127.0.0.1:{port}") as opened:
            with pytest.raises(StoreError, match=r"refused the login: .*; check user and password") as caught:
                take(opened)
            assert "wrong" not in str(caught.value)
            assert opened.state == "down"
    assert "check user and password" in caplog.text


def test_database_numbers_and_users_are_respected(url: str) -> None:
    with admin(url) as server:
        server.acl_setuser("gate", enabled=True, passwords=["+p@ss#/w:rd"], keys=["limen{*"], commands=["+@all"])
    with started(url.replace("//", "//gate:p@ss#/w:rd@") + "/3") as opened:
        assert take(opened) == 1000
    with admin(url + "/3") as server:
        assert len(buckets_in(server)) == 1
        server.acl_deluser("gate")


def test_a_replica_is_not_used(url: str, tmp_path: Path) -> None:
    port = url.rpartition(":")[2]
    with redis_server(tmp_path / "replica", "--replicaof", f"127.0.0.1 {port}") as replica:
        opened = store(f"valkey://127.0.0.1:{replica}")
        opened.start()
        with pytest.raises(StoreError, match="is a replica") as caught:
            take(opened)
        opened.close()
        assert caught.value.kind == "down"


def test_a_server_that_becomes_a_replica_is_left(tmp_path: Path) -> None:
    with (
        redis_server(tmp_path / "one") as port,
        redis_server(tmp_path / "two") as other,
        started(f"valkey://127.0.0.1:{port}") as opened,
        admin(f"redis://127.0.0.1:{port}") as server,
    ):
        assert take(opened) == 1000
        server.replicaof("127.0.0.1", other)
        with pytest.raises(StoreError) as caught:
            take(opened)
        assert caught.value.kind == "read_only"
        assert opened.state == "down"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that vouches for itself."""
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=limen"
    command += f" -addext subjectAltName=IP:127.0.0.1 -keyout {folder}/key.pem -out {folder}/cert.pem"
    subprocess.run(command.split(), check=True, capture_output=True, timeout=60)
    return folder


def test_tls_is_verified(tmp_path: Path, certificates: Path, caplog: Any) -> None:
    files = [
        f"--tls-{kind}-file {certificates}/{name}.pem".split() for kind, name in (("cert", "cert"), ("key", "key"))
    ]
    options = [*files[0], *files[1], "--tls-ca-cert-file", f"{certificates}/cert.pem", "--tls-auth-clients", "no"]
    with redis_server(tmp_path / "redis", *options) as port:
        with started(f"valkeys://127.0.0.1:{port}?tls_ca={certificates}/cert.pem") as opened:
            in_threads(8, lambda number: [take(opened) for _ in range(20)])
            assert take(opened, cost=0) == 1000 - 160
        with started(f"valkeys://127.0.0.1:{port}") as opened, pytest.raises(StoreError, match="certificate"):
            take(opened)
        with started(f"valkeys://127.0.0.1:{port}?tls_verify=none") as opened:
            assert take(opened, "other") == 1000
