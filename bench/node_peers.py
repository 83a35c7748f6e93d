"""Peers on Node: installed where the other tools of this checkout are, run as processes of their own.

`python -m bench.node_peers` installs them, exactly as locked. Without Node or without a registry they are left out.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bench.case import KNOWN_CLIENTS, Spend

__all__ = ["missing_node", "rate_limiter_flexible", "versions"]

LOCKED = Path(__file__).parent / "node"
TOOLS = Path(__file__).parents[1] / ".tools" / "node"
STAMP = TOOLS / "installed"
FILES = ("package.json", "package-lock.json")
INSTALL_S = 120
REPLY_S = 60.0
IN_FLIGHT = 64


def install() -> None:
    """Make .tools/node hold what the lock names; say so when that cannot be done."""
    if shutil.which("npm") is None or missing_node() is None:
        return
    TOOLS.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copy(LOCKED / name, TOOLS)
    try:
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, cwd=TOOLS, check=True, timeout=INSTALL_S, stdout=subprocess.DEVNULL)
    except (subprocess.SubprocessError, OSError) as error:
        print(f"bench: the peers on Node are left out: {error}", file=sys.stderr)
    else:
        STAMP.write_bytes(_wanted())


def versions() -> dict[str, str]:
    """Of Node and of the peers on it, when they can run."""
    if missing_node() is not None:
        return {}
    told = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=REPLY_S, check=True)
    named: dict[str, str] = json.loads((LOCKED / "package.json").read_text())["dependencies"]
    return {"node": told.stdout.strip().lstrip("v"), **named}


def missing_node() -> str | None:
    """Why the peers on Node cannot run, if so."""
    if shutil.which("node") is None:
        return "node is not installed"
    if not STAMP.exists() or STAMP.read_bytes() != _wanted():
        return "rate-limiter-flexible is not installed in .tools/node; ./dev bench does that where npm can"
    return None


@asynccontextmanager
async def rate_limiter_flexible(store: str) -> AsyncIterator[Spend]:
    """rate-limiter-flexible: fixed window, through ioredis."""
    port = store.rpartition(":")[2]
    script = LOCKED / "rate_limiter_flexible.cjs"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec("node", script, TOOLS, port, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    asks, answers = process.stdin, process.stdout

    async def spend(clients: Sequence[str]) -> float:
        asks.write(b"%d %d %d\n" % (len(clients), IN_FLIGHT, KNOWN_CLIENTS))
        async with asyncio.timeout(REPLY_S):
            return float(await answers.readline())

    try:
        yield spend
    finally:
        asks.close()
        process.kill()
        await process.wait()


def _wanted() -> bytes:
    return (LOCKED / "package-lock.json").read_bytes()


if __name__ == "__main__":
    install()
