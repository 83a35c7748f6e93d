"""Every error reply is known for what it is, bare or inside the error of a script, and says what to do about it."""

from __future__ import annotations

import pytest

from limen.stores.valkey.replies import Refusal, classify, is_replica, store_error

READONLY_BEFORE_7 = (
    "ERR Error running script (call to f_5a1): @user_script:99: @user_script: 99: "
    "-READONLY You can't write against a read only replica."
)
READONLY_SINCE_7 = "READONLY You can't write against a read only replica. script: 5a1, on @user_script:99."
OOM_BEFORE_7 = (
    "ERR Error running script (call to f_5a1): @user_script:9: @user_script: 9: "
    "-OOM command not allowed when used memory > 'maxmemory'."
)
ACL_SINCE_7 = (
    "ERR ACL failure in script: User bob has no permissions to run the 'hset' command script: 5a1, on @user_script:9."
)

TREATMENTS = [
    # what the server says, code, kind, unusable, stale, moved on
    ("MOVED 3999 127.0.0.1:6381", "MOVED", "moved", False, False, True),
    ("ASK 3999 127.0.0.1:6381", "ASK", "moved", False, False, False),
    ("TRYAGAIN Multiple keys request during rehashing of slot", "TRYAGAIN", "moved", False, False, False),
    ("NOSCRIPT No matching script. Please use EVAL.", "NOSCRIPT", "no_script", False, False, False),
    ("LOADING Redis is loading the dataset in memory", "LOADING", "loading", True, False, False),
    ("MASTERDOWN Link with MASTER is down", "MASTERDOWN", "master_down", False, True, True),
    ("CLUSTERDOWN Hash slot not served", "CLUSTERDOWN", "cluster_down", True, False, True),
    ("BUSY Redis is busy running a script. You can only call SCRIPT KILL", "BUSY", "busy", True, False, False),
    ("READONLY You can't write against a read only replica.", "READONLY", "read_only", False, True, True),
    (READONLY_BEFORE_7, "READONLY", "read_only", False, True, True),
    (READONLY_SINCE_7, "READONLY", "read_only", False, True, True),
    ("OOM command not allowed when used memory > 'maxmemory'.", "OOM", "full", False, False, False),
    (OOM_BEFORE_7, "OOM", "full", False, False, False),
    ("NOPERM User bob has no permissions to run the 'evalsha' command", "NOPERM", "no_permission", False, False, False),
    (ACL_SINCE_7, "NOPERM", "no_permission", False, False, False),
    ("NOAUTH Authentication required.", "NOAUTH", "login", False, True, False),
    ("WRONGPASS invalid username-password pair", "WRONGPASS", "login", False, False, False),
    ("ERR something odd", "", "refused", False, False, False),
    ("BUSYGROUP Consumer Group name already exists", "", "refused", False, False, False),
    ("ERR the key 'OOM' of nobody", "", "refused", False, False, False),
    ("MOVED", "", "refused", False, False, False),
    ("MOVED here 127.0.0.1:1", "", "refused", False, False, False),
    ("MOVED 1 127.0.0.1", "", "refused", False, False, False),
    ("", "", "refused", False, False, False),
]


@pytest.mark.parametrize(("text", "code", "kind", "unusable", "stale", "moved_on"), TREATMENTS)
def test_RO_13_each_error_has_its_treatment(
    text: str, code: str, kind: str, unusable: bool, stale: bool, moved_on: bool
) -> None:
    refusal = classify(text)
    assert (refusal.code, refusal.kind, refusal.text) == (code, kind, text)
    assert (refusal.unusable, refusal.stale, refusal.moved_on) == (unusable, stale, moved_on)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("MOVED 7 10.0.0.1:6381", "10.0.0.1", 6381),
        ("MOVED 7 cache.example.com:6381", "cache.example.com", 6381),
        ("ASK 7 ::1:6381", "::1", 6381),
        ("ASK 7 [2001:db8::1]:6381", "2001:db8::1", 6381),
        ("MOVED 7 :6381", "", 6381),
        ("MOVED 7 ?:6381", "", 6381),
    ],
)
def test_where_a_slot_went(text: str, host: str, port: int) -> None:
    refusal = classify(text)
    assert (refusal.slot, refusal.host, refusal.port) == (7, host, port)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("OOM", "maxmemory.*volatile-ttl"),
        ("BUSY", "SCRIPT KILL"),
        ("NOPERM", "limen doctor"),
        ("NOAUTH", "user and a password"),
        ("WRONGPASS", "check user and password"),
        ("MOVED", r"valkey\+cluster://"),
        ("READONLY", "replica"),
    ],
)
def test_the_message_says_who_refused_what_and_what_to_do(code: str, advice: str) -> None:
    error = store_error(Refusal(code, f"{code} as the server says"), "valkey://host:1/0")
    assert str(error).startswith(f"valkey://host:1/0 refused: {code} as the server says; ")
    with pytest.raises(type(error), match=advice):
        raise error


def test_a_replica_is_known_by_its_role() -> None:
    assert is_replica([b"slave", b"10.0.0.1", 6379, b"connected", 3])
    assert not is_replica([b"master", 3, []])
    assert not is_replica([b"sentinel", [b"main"]])
    assert not is_replica(None)
    assert not is_replica([])
