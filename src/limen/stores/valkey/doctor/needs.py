"""What the user of a store must be allowed to do: the one list that the shipped ACL and the doctor are made from.

A server checks the permission of a command before it looks at what the command is to do, so a form that cannot do
anything tells whether the command is allowed: a read, the removal of what is not there, or arguments that do not fit.
That works for every user on every server, whereas `ACL DRYRUN` needs the right to administer users.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["KEYS", "NEEDS", "PROBE_KEY", "Need", "acl_rules"]

KEYS = "limen{*"
"""Every key of ours, as a pattern."""
PROBE_KEY = b"limen{limen doctor}"
"""A key that never holds anything."""


class Need(NamedTuple):
    """A command, named as an ACL names it, and a form of it that does nothing."""

    command: str
    arguments: tuple[bytes, ...] = ()
    optional: bool = False
    """Without it decisions are as they were, and less is found out about the server."""

    @property
    def words(self) -> tuple[bytes, ...]:
        return (*(word.encode() for word in self.command.split("|")), *self.arguments)

    @property
    def rule(self) -> str:
        return "+" + self.command.lower()


KEY = PROBE_KEY
NEEDS = (
    # connections
    Need("PING"),
    Need("SELECT", (b"0",)),
    Need("CLIENT|SETNAME", (b"limen",)),
    # the script, and the server's clock
    Need("SCRIPT|LOAD", (b"no script",)),
    Need("EVALSHA", (b"0" * 40, b"1", KEY)),
    Need("TIME"),
    # buckets: to take from them, to give back, to grant
    Need("HGET", (KEY, b"field")),
    Need("HMGET", (KEY, b"field")),
    Need("HSET", (KEY, b"field", b"value", b"a field without a value")),
    Need("PTTL", (KEY,)),
    Need("PEXPIRE", (KEY, b"1")),
    Need("GET", (KEY,)),
    Need("SET", (KEY, b"value", b"NX", b"XX")),
    # resets
    Need("HDEL", (KEY, b"field")),
    Need("DEL", (KEY,)),
    # slots of concurrency limits
    Need("TYPE", (KEY,)),
    Need("ZADD", (KEY, b"no number", b"member")),
    Need("ZCARD", (KEY,)),
    Need("ZRANGE", (KEY, b"0", b"0")),
    Need("ZRANGEBYSCORE", (KEY, b"0", b"0")),
    Need("ZREM", (KEY, b"member")),
    Need("ZREMRANGEBYSCORE", (KEY, b"0", b"0")),
    Need("ZSCORE", (KEY, b"member")),
    # clusters, and whether a server is the primary
    Need("CLUSTER|SLOTS"),
    Need("ASKING"),
    Need("ROLE"),
    # what a server says about itself
    Need("INFO", (b"memory",), optional=True),
)


def acl_rules() -> str:
    """What a user needs, as it stands in an ACL file: nothing else is allowed, no other key, no channel."""
    return " ".join(("resetkeys", f"~{KEYS}", "resetchannels", "-@all", *(need.rule for need in NEEDS)))
