"""The very commands that Limen sends, for load that is made without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import hiredis

from bench.load import Pipe
from limen import Rule
from limen.core.limit import Limit
from limen.rules.key import identity_of_client
from limen.stores.base import Op
from limen.stores.valkey.names import Names
from limen.stores.valkey.script import Commands, parse_seen

__all__ = ["Questions", "encoded", "words_of"]


class Questions:
    """Asks about clients under rules, as `AsyncLimiter.check` does."""

    def __init__(self) -> None:
        self._commands = Commands(Names(None))

    def introduce(self, port: int) -> None:
        """Let a server know the script."""
        with Pipe(port) as pipe:
            loaded = pipe.ask(self._commands.load)
        if isinstance(loaded, Exception):
            raise SystemExit(f"bench: the server does not take the script: {loaded}")

    def take(self, client: str, *rules: Rule, cost: int = 1) -> bytes:
        """One check of a client under all of some rules."""
        return self._commands.take([_op(client, rule, cost) for rule in rules])

    def take_each(self, clients: Iterable[str], *rules: Rule, cost: int = 1) -> Iterator[bytes]:
        """One check of each client."""
        for client in clients:
            yield self.take(client, *rules, cost=cost)

    def lacks_a_token(self, reply: object, rule: Rule) -> bool:
        """Whether the reply to a check under one rule says that its bucket does not hold a token."""
        if isinstance(reply, Exception):
            return False
        op = _op("", rule, 1)
        (seen,) = parse_seen(reply, [op])
        return not op.limit.allows(seen, 1)


def words_of(command: bytes) -> list[bytes]:
    """The words of a command as it is sent."""
    reader = hiredis.Reader()
    reader.feed(command)
    words: list[bytes] = reader.gets()
    return words


def encoded(*words: bytes) -> bytes:
    """A command as it is sent."""
    packed: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]
    return packed


def _op(client: str, rule: Rule, cost: int) -> Op:
    assert isinstance(rule.limit, Limit)
    return Op(identity_of_client(client, rule.key_by), rule.id, rule.limit, cost)
