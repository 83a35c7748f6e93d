"""What redis-py is told about a server, for both of its kinds of connection."""

from __future__ import annotations

from typing import Any

from limen.stores.valkey.endpoint import Endpoint, Tls

__all__ = ["login_options"]

CONNECT_S = 1.0
"""How long until a server accepts a connection, which one that hangs does too. A packet that was lost on the way is
repeated after a second, then after two more, then four: a new attempt is there sooner."""


def login_options(endpoint: Endpoint, timeout_s: float) -> dict[str, Any]:
    """Where to connect and how to log in.

    Retries are not among them, because the two kinds have classes of their own for that. They must be off: by default
    redis-py sends a command again after a lost reply, and that counts twice.
    """
    return {
        "host": endpoint.host,
        "port": endpoint.port,
        "db": endpoint.database,
        "username": endpoint.username,
        "password": endpoint.password,
        "client_name": "limen",
        "driver_info": None,  # it would be told the name of a library too: a right more that a user needs
        "protocol": 2,
        "socket_connect_timeout": timeout_s if endpoint.tls else min(timeout_s, CONNECT_S),
        **_tls_options(endpoint.tls),
    }


def _tls_options(tls: Tls | None) -> dict[str, Any]:
    if tls is None:
        return {}
    return {
        "ssl_ca_certs": tls.ca or None,
        "ssl_certfile": tls.cert or None,
        "ssl_keyfile": tls.key or None,
        "ssl_cert_reqs": "required" if tls.verify else "none",
        "ssl_check_hostname": tls.verify,
    }
