"""Ask one server about itself, over the same login that decisions use. All that is left there is gone in a second."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Iterable
from fractions import Fraction

import hiredis

from limen.core.limit import Limit
from limen.stores.base import Op
from limen.stores.valkey.connect import open_link
from limen.stores.valkey.doctor.facts import Facts
from limen.stores.valkey.doctor.needs import NEEDS
from limen.stores.valkey.endpoint import Endpoint
from limen.stores.valkey.link import Link, Reply
from limen.stores.valkey.names import Names
from limen.stores.valkey.script import Commands

__all__ = ["ask", "connected", "dangers_of", "facts_of", "mode_of"]

PATIENCE_S = 2.0
LOOKS = 21
SETTINGS = ("save", "min-replicas-to-write", "min-replicas-max-lag")
"""What INFO does not tell."""
MOST_TRIALS = 10_000
"""Until one of them belongs to this node, however small its part of the cluster is."""
TRIAL = Op("limen doctor", "limen doctor", Limit(1000, Fraction(1000)), 1)
"""A decision of our own: its bucket is full, and forgotten, after a millisecond and the second that a key lives on."""


@contextlib.asynccontextmanager
async def connected(endpoint: Endpoint) -> AsyncIterator[Link]:
    """A link to a server.

    Raises:
        StoreError: nobody answers, or not in two seconds, or the login was refused.
    """
    link = await open_link(endpoint, PATIENCE_S, PATIENCE_S)
    try:
        yield link
    finally:
        link.close()


async def ask(link: Link, *words: bytes | str) -> Reply:
    """A command; what it refuses comes back as a `hiredis.ReplyError`."""
    return await link.ask(hiredis.pack_command(words))  # type: ignore[arg-type]  # declared for one word only


async def mode_of(link: Link) -> str:
    """What kind of server it is: standalone, cluster or sentinel. One that does not tell is taken for the first."""
    return _pairs(await ask(link, "HELLO")).get("mode", "standalone")


async def facts_of(link: Link, server: str) -> Facts:
    """Everything about one server."""
    return Facts(
        server=server,
        answers_ms=await _answers_ms(link),
        ahead_s=await _ahead_s(link),
        hello=_pairs(await ask(link, "HELLO")),
        info=_lines(await ask(link, "INFO")),
        config=await _settings(link),
        undecided=await _undecided(link),
        refused=await _refusals(link),
    )


async def dangers_of(link: Link, server: str) -> Facts:
    """What has to be known at a start."""
    return Facts(server=server, info=_lines(await ask(link, "INFO", "memory")), refused=await _refusals(link))


async def _refusals(link: Link) -> dict[str, str]:
    """Which commands this user may not run, or the server does not know, and what it says."""
    refused = {}
    for need in NEEDS:
        reply = await ask(link, *need.words)
        if isinstance(reply, hiredis.ReplyError) and _is_refused_unread(str(reply)):
            refused[need.command] = str(reply)
    return refused


def _is_refused_unread(error: str) -> bool:
    return error.startswith("NOPERM") or "unknown command" in error.lower() or "unknown subcommand" in error.lower()


async def _answers_ms(link: Link) -> float:
    return statistics.median([await _one_answer_ms(link) for _ in range(LOOKS)])


async def _one_answer_ms(link: Link) -> float:
    asked = time.perf_counter()
    await ask(link, "PING")
    return (time.perf_counter() - asked) * 1000


async def _ahead_s(link: Link) -> float:
    """Its clock beside ours at the middle of the question."""
    before = time.time()
    reply = await ask(link, "TIME")
    after = time.time()
    if not isinstance(reply, list):
        return 0.0
    return int(reply[0]) + int(reply[1]) / 1_000_000 - (before + after) / 2


async def _settings(link: Link) -> dict[str, str]:
    found = {}
    for name in SETTINGS:
        found.update(_pairs(await ask(link, "CONFIG", "GET", name)))
    return found


async def _undecided(link: Link) -> str:
    """Why a decision cannot be made; empty when one was."""
    commands = Commands(Names(None))
    loaded = await link.ask(commands.load)
    if isinstance(loaded, hiredis.ReplyError):
        return str(loaded)
    error = ""
    for number in range(MOST_TRIALS):
        reply = await link.ask(commands.take([TRIAL._replace(identity=f"limen doctor {number}")]))
        error = str(reply) if isinstance(reply, hiredis.ReplyError) else ""
        if not error.startswith("MOVED"):
            break
    return error


def _pairs(reply: Reply) -> dict[str, str]:
    """A flat list of names and values as a dictionary; empty for an error."""
    words = [_text(word) for word in reply] if isinstance(reply, list) else []
    return dict(zip(words[::2], words[1::2], strict=True))


def _lines(reply: Reply) -> dict[str, str]:
    """The `name:value` lines of INFO; empty for an error."""
    lines: Iterable[str] = reply.decode(errors="replace").splitlines() if isinstance(reply, bytes) else ()
    return {name: value for name, _, value in (line.partition(":") for line in lines) if value}


def _text(word: object) -> str:
    return word.decode(errors="replace") if isinstance(word, bytes) else str(word)
