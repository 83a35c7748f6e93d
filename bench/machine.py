"""What a reader must know about a machine to judge its numbers; nothing that tells where it stands."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

__all__ = ["machine_facts"]

PACKAGES = (
    "limen", "hiredis", "redis", "uvloop", "prometheus-client",
    "limits", "throttled-py", "pyrate-limiter", "aiolimiter", "valkey-glide",
)  # fmt: skip


def machine_facts(server: Any = None) -> dict[str, Any]:
    """The machine, and every version that matters. `server` is a running server."""
    facts: dict[str, Any] = {
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": {name: _version(name) for name in PACKAGES},
    }
    if server is not None:
        facts["versions"]["server"] = _server_version(server)
    return facts


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _server_version(server: Any) -> str:
    with server.client() as client:
        told = client.info("server")
    name = told.get("server_name", "redis")
    return f"{name} {told.get('valkey_version', told['redis_version'])}"
