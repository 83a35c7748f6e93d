"""What an error reply means, and what is to be done about it. Pure.

    MOVED        another node decides about this slot: ask it at once, remember that, look at the whole map again
    ASK          the slot is moving, its new node has this key: ASKING and the command in one write; never remembered
    TRYAGAIN     the slot is moving and the keys of one script are at two nodes: ask for each key alone
    NOSCRIPT     load the script, ask once more
    LOADING CLUSTERDOWN BUSY
                 the node cannot decide now: a few of these in a second open its breaker, until a probe is answered
    READONLY MASTERDOWN
                 not a primary (any more): drop the connection, find the primary anew, connect to it
    NOAUTH       a password was set meanwhile: log in anew
    OOM          memory is full: whoever has tokens cannot spend them. The breaker stays closed, because the same
                 server still refuses those who have none, and still answers who only looks
    NOPERM WRONGPASS, and what nobody knows
                 the failure policy of the rule decides; asking again would be refused again

The first four were refused unread, so the command may be sent again. Nothing else is ever sent twice. None of these is
a denial.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from limen.errors import StoreError

__all__ = ["ROLE", "Refusal", "classify", "is_replica", "store_error"]

ROLE = b"*1\r\n$4\r\nROLE\r\n"
KINDS = {
    "MOVED": "moved",
    "ASK": "moved",
    "TRYAGAIN": "moved",
    "NOSCRIPT": "no_script",
    "LOADING": "loading",
    "MASTERDOWN": "master_down",
    "CLUSTERDOWN": "cluster_down",
    "BUSY": "busy",
    "READONLY": "read_only",
    "OOM": "full",
    "NOPERM": "no_permission",
    "NOAUTH": "login",
    "WRONGPASS": "login",
}
UNUSABLE = ("LOADING", "CLUSTERDOWN", "BUSY")
MOVED_ON = ("MOVED", "CLUSTERDOWN", "MASTERDOWN", "READONLY")
STALE = ("READONLY", "MASTERDOWN", "NOAUTH")
IN_SCRIPT = re.compile(r"(?<![A-Za-z])(READONLY|OOM|NOPERM|MASTERDOWN|CLUSTERDOWN|LOADING|BUSY|NOSCRIPT)\b")
SCRIPT_ERROR = re.compile(r"user_script|[Ee]rror running script|call to f_")
"""Servers before version 7 put the error of a command inside an error of the script."""
ACL_IN_SCRIPT = "ACL failure in script"
ADVICE = {
    "MOVED": "it is a node of a cluster: begin the store URL with valkey+cluster://",
    "ASK": "it is a node of a cluster: begin the store URL with valkey+cluster://",
    "TRYAGAIN": "its slot is being moved to another node",
    "LOADING": "it is loading its data and will decide when it is done",
    "MASTERDOWN": "it is a replica without its primary, which is looked for",
    "CLUSTERDOWN": "a part of the cluster has no node; see CLUSTER INFO",
    "BUSY": "a script does not end: look at it, and stop it with SCRIPT KILL",
    "READONLY": "it is a replica: its primary is looked for",
    "OOM": "raise maxmemory, or set maxmemory-policy volatile-ttl",
    "NOPERM": "its user lacks a permission: limen doctor names it and the ACL rule to add",
    "NOAUTH": "give a user and a password in the store URL",
    "WRONGPASS": "check user and password in the store URL",
}


class Refusal(NamedTuple):
    """An error reply, understood as far as it can be."""

    code: str
    """The word of the server, such as `MOVED`; empty when nobody knows it."""
    text: str
    slot: int = -1
    """The slot, for MOVED and ASK."""
    host: str = ""
    """Where it is; empty for the node that said so."""
    port: int = 0

    @property
    def kind(self) -> str:
        """As in `StoreError.kind`."""
        return KINDS.get(self.code, "refused")

    @property
    def unusable(self) -> bool:
        """Whether the node cannot decide about anything now."""
        return self.code in UNUSABLE

    @property
    def stale(self) -> bool:
        """Whether the connection leads to the wrong place, or is not logged in any more."""
        return self.code in STALE

    @property
    def moved_on(self) -> bool:
        """Whether what is known of the cluster has to be looked at again."""
        return self.code in MOVED_ON


def classify(text: str) -> Refusal:
    """What an error reply means."""
    code = text.partition(" ")[0]
    if code in ("MOVED", "ASK"):
        return _elsewhere(code, text)
    if code in KINDS:
        return Refusal(code, text)
    if ACL_IN_SCRIPT in text:
        return Refusal("NOPERM", text)
    inside = IN_SCRIPT.search(text) if SCRIPT_ERROR.search(text) else None
    return Refusal(inside[1] if inside else "", text)


def store_error(refusal: Refusal, where: str, shard: str = "") -> StoreError:
    """The same as an error to raise.

    Args:
        where: which server refused, in words.
        shard: the same as `host:port`, when it is one that decides.
    """
    advice = ADVICE.get(refusal.code)
    return StoreError(f"{where} refused: {refusal.text}" + (f"; {advice}" if advice else ""), refusal.kind, shard)


def is_replica(reply: object) -> bool:
    """Whether the answer to ROLE is that of a server that takes no writes."""
    return isinstance(reply, list) and bool(reply) and reply[0] in (b"slave", b"replica", "slave", "replica")


def _elsewhere(code: str, text: str) -> Refusal:
    """`MOVED 3999 127.0.0.1:6381`, where the host may be an IPv6 address without brackets, or nothing."""
    words = text.split()
    host, _, port = words[2].rpartition(":") if len(words) >= 3 else ("", "", "")
    if not (port.isdigit() and words[1].isdigit()):
        return Refusal("", text)
    return Refusal(code, text, int(words[1]), "" if host == "?" else host.strip("[]"), int(port))
