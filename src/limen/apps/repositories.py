"""The rules database that the settings name, with the secrets that they name."""

from __future__ import annotations

from limen.admin.repository import Repository
from limen.apps.settings import Shared

__all__ = ["repository_for"]


def repository_for(settings: Shared) -> Repository:
    """Not yet connected."""
    return Repository(settings.rules_db, _bytes(settings.secret), previous=_bytes(settings.previous_secret))


def _bytes(secret: str | None) -> bytes | None:
    return None if secret is None else secret.encode()
