"""What `limen doctor` looks at: the store, the rules database, and the machine that it runs on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from limen.apps.cli.options import DEFAULT_RULES_DB
from limen.apps.settings import Listen, Shared
from limen.errors import LimenError, RulesUnavailable, SettingsError
from limen.stores.valkey.doctor.finding import Finding, fail, ok, unreachable, warn

__all__ = ["examine_all"]

SQLITE = "sqlite:///"
WANTED = {"hiredis": (3, 5), "redis": (8, 1), "uvloop": (0, 23)}
"""Older ones leak memory or sockets."""


async def examine_all(settings: Shared, ports: Iterable[Listen]) -> list[Finding]:
    """Everything, the store first.

    Raises:
        SettingsError: a URL is none.
    """
    found = await _store(settings.store, settings.deadline_ms)
    found.append(await _rules_database(settings.rules_db))
    found.append(_saved(settings.state, settings.rules_db or DEFAULT_RULES_DB))
    return [*found, *map(_port, ports), *_libraries()]


async def _store(url: str, deadline_ms: float) -> list[Finding]:
    if not url:
        return [ok("store", "none is named, so none was looked at", "name it with --store or LIMEN_STORE")]
    if url == "memory://":
        return [ok("store", "memory:// is exact for one process and forgotten when it ends")]
    from limen.stores.valkey.doctor.examine import examine
    from limen.stores.valkey.url import parse_target

    return await examine(parse_target(url), deadline_ms)


async def _rules_database(url: str) -> Finding:
    named = url or DEFAULT_RULES_DB
    if _is_absent_file(named):
        if url:
            advice = "limen rules apply makes it; or mend --rules-db"
            return unreachable("rules", f"{url.removeprefix(SQLITE)} is not there", advice)
        return ok("rules", "no database is named, so none was looked at", "name it with --rules-db or LIMEN_RULES_DB")
    try:
        return await _rules(named)
    except RulesUnavailable as error:
        return unreachable("rules", str(error), "see that it runs, and that --rules-db is right")


def _is_absent_file(url: str) -> bool:
    """Looking into a SQLite file would make it."""
    return url.startswith(SQLITE) and not Path(url.removeprefix(SQLITE)).exists()


async def _rules(url: str) -> Finding:
    from limen.admin.repository import Repository
    from limen.admin.stored_rules import readable_rules
    from limen.rules.ruleset import RuleSet

    if not await _is_made(url):
        return warn("rules", "the database has no tables yet", "limen rules apply makes them, and so does a gateway")
    async with Repository(url) as repository:
        snapshot = await repository.snapshot()
    try:
        rules = RuleSet(readable_rules(snapshot.rules), snapshot.revision).rules
    except LimenError as error:
        return fail("rules", f"revision {snapshot.revision} cannot be used: {error}", "mend it with limen rules apply")
    return ok("rules", f"revision {snapshot.revision}, {len(rules)} rules, {len(snapshot.clients)} clients")


async def _is_made(url: str) -> bool:
    """Whether there is something to read. A `Repository` would make it."""
    from limen.admin.database import Database

    database = Database(url)
    try:
        return await database.is_made()
    finally:
        await database.close()


def _saved(folder: Path | None, url: str) -> Finding:
    """What a gateway on this machine would start from while the database is away."""
    from limen.admin.last_good import LastGood

    if folder is None:
        return warn("state", "there is no folder for the last good rules", "name one with --state")
    disk = LastGood(folder, url)
    if not _can_write(folder):
        advice = "let this user write there, or name another folder with --state"
        return warn("state", f"the last good rules cannot be saved in {folder}", advice)
    if not disk.is_there:
        return ok("state", f"no rules of this database have been saved in {folder} yet")
    try:
        return ok("state", f"{disk.path} holds revision {disk.load().snapshot.revision} of the rules")
    except RulesUnavailable as error:
        return warn("state", str(error), "a gateway writes it anew when it next loads rules")


def _can_write(folder: Path) -> bool:
    """Whether files can be made there, or the folder itself."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _port(listen: Listen) -> Finding:
    """Whether a server could listen there. It is no fault that Limen's own already does."""
    from limen.apps.listening import bound

    try:
        bound(listen).close()
    except SettingsError as error:
        return warn("port", str(error), "or leave it, when it is Limen that runs there")
    return ok("port", f"{listen.port} on {listen.host} is free")


def _libraries() -> list[Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    here = {name: _installed(name) for name in ("limen", *WANTED)}
    listed = ", ".join(f"{name} {found}" for name, found in here.items() if found)
    found = [ok("python", f"{python}, {listed}")]
    old = [name for name, wanted in WANTED.items() if here[name] and _numbers(here[name]) < wanted]
    found += [warn("python", f"{name} {here[name]} is too old", f"pip install -U {name}") for name in old]
    if not here["uvloop"]:
        found.append(ok("python", "uvloop is not installed, which is faster", "pip install 'limen[fast]'"))
    return found


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
