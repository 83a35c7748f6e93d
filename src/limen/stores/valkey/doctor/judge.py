"""What the facts about one server mean for limits. Pure."""

from __future__ import annotations

from limen.stores.valkey.doctor.facts import Facts
from limen.stores.valkey.doctor.finding import Finding, fail, ok, warn
from limen.stores.valkey.doctor.keeping import eviction, persistence, replicas
from limen.stores.valkey.doctor.rights import decision, permissions
from limen.stores.valkey.doctor.version import version

__all__ = ["judge"]

MAX_AHEAD_S = 1.0
CHECKS = (version, permissions, decision, eviction, persistence, replicas)


def judge(facts: Facts, deadline_ms: float) -> list[Finding]:
    """Everything that there is to say about one server that decides.

    Args:
        deadline_ms: how long a decision waits for it.
    """
    found = [_reachable(facts, deadline_ms), _role(facts), *(check(facts) for check in CHECKS), _clock(facts)]
    return [finding._replace(about=facts.server) for finding in found if finding is not None]


def _reachable(facts: Facts, deadline_ms: float) -> Finding:
    sentence = f"answers in {facts.answers_ms:.2f} ms, and a decision waits {deadline_ms:g} ms at most"
    advice = "bring it nearer, give it a CPU of its own, or raise --deadline-ms"
    if facts.answers_ms > deadline_ms:
        return fail("reachable", f"{sentence}: decisions are made without it", advice)
    if facts.answers_ms > deadline_ms / 2:
        return warn("reachable", f"{sentence}: some are made without it", advice)
    return ok("reachable", sentence)


def _role(facts: Facts) -> Finding:
    role = facts.hello.get("role", "server that does not tell its role")
    if role == "master":
        return ok("role", "is a primary")
    advice = "give the address of its primary, or let sentinels or the cluster name it"
    return fail("role", f"is a {role}: nothing is decided there", advice)


def _clock(facts: Facts) -> Finding:
    if abs(facts.ahead_s) <= MAX_AHEAD_S:
        return ok("clock", f"is within {MAX_AHEAD_S:g} s of this machine")
    way = "ahead of" if facts.ahead_s > 0 else "behind"
    sentence = (
        f"is {abs(facts.ahead_s):.1f} s {way} this machine: when it is set right, buckets fill or wait for as long"
    )
    return warn("clock", sentence, "let both follow one time server")
