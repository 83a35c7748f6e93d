"""Who is let into the admin API, request by request."""

from __future__ import annotations

from typing import Any

import pytest

from limen.admin.access import Access, Asked
from limen.admin.callers import Caller
from limen.admin.front_proxy import FrontProxy
from limen.admin.problems import Reply
from limen.admin.tokens import make_token
from limen.errors import RulesUnavailable
from limen.rules.client_ip import networks

ALICE, BOB = make_token().text, make_token().text
HOST = ("Host", "127.0.0.1:8090")
PROXY = FrontProxy(
    header="X-Forwarded-Email",
    sources=networks(["10.0.0.0/8", "::1"]),
    groups_header="X-Forwarded-Groups",
    editors=frozenset({"sre"}),
    approvers=frozenset({"leads"}),
)
EMAIL = ("x-forwarded-email", "ann@example.com")
OURS = ("X-Limen-Request", "1")


class Book:
    """Knows Alice, as long as it knows anything."""

    def __init__(self, *, empty: bool = False, away: bool = False) -> None:
        self.empty, self.away = empty, away

    def find(self, text: str) -> Caller | None:
        self._check()
        return Caller("alice", "editor") if text == ALICE and not self.empty else None

    def is_empty(self) -> bool:
        self._check()
        return self.empty

    def _check(self) -> None:
        if self.away:
            raise RulesUnavailable("the rules database does not answer")


def asked(*fields: tuple[str, str], method: str = "GET", peer: str | None = "127.0.0.1") -> Asked:
    return Asked(method, peer, lambda name: [value for field, value in fields if field.lower() == name.lower()])


def bearer(token: str) -> tuple[str, str]:
    return "Authorization", f"Bearer {token}"


def outcome(access: Access, question: Asked) -> Any:
    """(author, role) of who is let in, else the status."""
    found = access.admit(question)
    return found.status if isinstance(found, Reply) else (found.author, found.role)


GUARDED = Access("the-bootstrap-token", book=Book())
OPEN = Access(book=Book(empty=True), local=True)
CLOSED_BY_A_TOKEN = Access(book=Book(), local=True)
NOBODY_KNOWS = Access("the-bootstrap-token", book=Book(away=True))
LOCAL_AND_NOBODY_KNOWS = Access(book=Book(away=True), local=True)
BEHIND = Access("the-bootstrap-token", book=Book(), front=PROXY)

BOOTSTRAP = ("admin-token", "approver")
LOCAL = ("local", "approver")
TOKENS: list[tuple[Access, tuple[tuple[str, str], ...], Any]] = [
    (GUARDED, (bearer("the-bootstrap-token"),), BOOTSTRAP),
    (GUARDED, (("authorization", "bearer   the-bootstrap-token "),), BOOTSTRAP),
    (GUARDED, (bearer(ALICE),), ("alice", "editor")),
    (GUARDED, (), 401),
    (GUARDED, (bearer(""),), 401),
    (GUARDED, (bearer("the-bootstrap-toke"),), 401),
    (GUARDED, (bearer("the-bootstrap-token2"),), 401),
    (GUARDED, (bearer(BOB),), 401),
    (GUARDED, (bearer(ALICE[:-1]),), 401),
    (GUARDED, (("Authorization", f"Basic {ALICE}"),), 401),
    (GUARDED, (("Authorization", ALICE),), 401),
    (GUARDED, (bearer(ALICE), bearer(ALICE)), 401),
    (GUARDED, (bearer(ALICE), bearer(BOB)), 401),
    (GUARDED, (EMAIL,), 401),
    (NOBODY_KNOWS, (bearer("the-bootstrap-token"),), BOOTSTRAP),
    (NOBODY_KNOWS, (bearer(ALICE),), 503),
    (NOBODY_KNOWS, (), 401),
    (OPEN, (HOST,), LOCAL),
    (OPEN, (HOST, bearer("of something else")), LOCAL),
    (OPEN, (HOST, bearer(BOB)), 401),
    (CLOSED_BY_A_TOKEN, (HOST,), 401),
    (CLOSED_BY_A_TOKEN, (HOST, bearer(ALICE)), ("alice", "editor")),
    (LOCAL_AND_NOBODY_KNOWS, (HOST,), 503),
    (Access("t", everybody=True), (), 401),
]


@pytest.mark.parametrize(("access", "fields", "expected"), TOKENS, ids=range(len(TOKENS)))
def test_a_right_token_opens_and_everything_else_does_not(access: Access, fields: Any, expected: Any) -> None:
    assert outcome(access, asked(*fields)) == expected


HOSTS = [
    ("localhost", LOCAL), ("LOCALHOST:8090", LOCAL), ("127.0.0.1:1", LOCAL), ("127.1.2.3", LOCAL),
    ("[::1]:8090", LOCAL), ("[::ffff:127.0.0.1]", LOCAL), ("limen.localhost", LOCAL), ("localhost.", LOCAL),
    ("evil.example", 421), ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421),
    ("127.0.0.1@evil.example", 421), ("10.0.0.1", 421), ("", 421), ("evillocalhost", 421), ("0.0.0.0", 421),
    ("192.0.2.1:8090", 421),
]  # fmt: skip


@pytest.mark.parametrize(("host", "expected"), HOSTS)
def test_S36_without_a_token_a_name_that_only_leads_here_opens_nothing(host: str, expected: Any) -> None:
    """A page of evil.example, whose name was made to lead to 127.0.0.1, sends its own name as Host."""
    assert outcome(OPEN, asked(("Host", host))) == expected


FORWARDED = ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "X-Forwarded-Host"]


@pytest.mark.parametrize("field", FORWARDED)
def test_S35_what_a_proxy_on_this_machine_hands_on_is_not_of_this_machine(field: str) -> None:
    """Many proxies write the address that they hand on to as Host: by that alone the world would be local."""
    assert outcome(OPEN, asked(HOST, (field, "192.0.2.1"))) == 401
    assert outcome(GUARDED, asked(HOST, (field, "192.0.2.1"), bearer(ALICE))) == ("alice", "editor")


def test_without_a_token_one_host_is_needed() -> None:
    assert outcome(OPEN, asked()) == 421
    assert outcome(OPEN, asked(HOST, HOST)) == 421


FOREIGN = [
    (("Sec-Fetch-Site", "cross-site"),), (("Sec-Fetch-Site", "same-site"),), (("Sec-Fetch-Site", "surprise"),),
    (("Origin", "https://evil.example"),), (("Origin", "null"),), (("Origin", "http://127.0.0.1:9999"),),
    (("Origin", "http://[bad"),), (("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")),
]  # fmt: skip
OWN = [
    (("Sec-Fetch-Site", "same-origin"),), (("Origin", "http://127.0.0.1:8090"),), (OURS,),
    (("Sec-Fetch-Site", "same-origin"), ("Origin", "https://outside.example")),
    (OURS, ("Sec-Fetch-Site", "cross-site")),
]  # fmt: skip
CHANGES = ("POST", "PUT", "DELETE", "PATCH")


@pytest.mark.parametrize("fields", FOREIGN, ids=str)
def test_S36_the_page_of_another_site_changes_nothing(fields: Any) -> None:
    for method in CHANGES:
        assert outcome(OPEN, asked(HOST, *fields, method=method)) == 403
        assert outcome(BEHIND, asked(HOST, EMAIL, *fields, method=method, peer="10.0.0.1")) == 403
        assert outcome(GUARDED, asked(HOST, bearer(ALICE), *fields, method=method)) == ("alice", "editor")


@pytest.mark.parametrize("fields", OWN, ids=str)
def test_our_own_page_may(fields: Any) -> None:
    for method in CHANGES:
        assert outcome(OPEN, asked(HOST, *fields, method=method)) == LOCAL
        assert outcome(BEHIND, asked(HOST, EMAIL, *fields, method=method, peer="10.0.0.1"))[0] == "ann@example.com"


def test_a_program_needs_the_field_behind_a_proxy_and_nothing_on_its_own_machine() -> None:
    assert outcome(OPEN, asked(HOST, method="PUT")) == LOCAL
    assert outcome(BEHIND, asked(HOST, EMAIL, method="PUT", peer="10.0.0.1")) == 403
    assert outcome(BEHIND, asked(HOST, EMAIL, method="GET", peer="10.0.0.1")) == ("ann@example.com", "viewer")


GROUPS = [
    ((), "viewer"), (("users",), "viewer"), (("sre",), "editor"), (("users, sre ,x",), "editor"),
    (("leads",), "approver"), (("sre,leads",), "approver"), (("sre", "leads"), "approver"), (("SRE",), "viewer"),
    (("",), "viewer"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "role"), GROUPS, ids=str)
def test_groups_give_a_role(lines: tuple[str, ...], role: str) -> None:
    groups = (("X-Forwarded-Groups", line) for line in lines)
    assert outcome(BEHIND, asked(EMAIL, *groups, peer="10.0.0.1")) == ("ann@example.com", role)


PLACES = [
    ("10.255.255.255", 200), ("::1", 200), ("::ffff:10.1.2.3", 200), ("11.0.0.1", 401), ("127.0.0.1", 401),
    ("::2", 401), (None, 401), ("", 401), ("rubbish", 401),
]  # fmt: skip


@pytest.mark.parametrize(("peer", "expected"), PLACES, ids=str)
def test_an_identity_is_believed_by_the_address_on_the_socket_alone(peer: str | None, expected: int) -> None:
    spoofed = ("X-Forwarded-For", "10.0.0.1"), ("Forwarded", "for=10.0.0.1"), ("X-Real-IP", "10.0.0.1")
    found = outcome(BEHIND, asked(EMAIL, *spoofed, peer=peer))
    assert found == (("ann@example.com", "viewer") if expected == 200 else expected)


NAMES = [
    ("ann@example.com", 200), ("Ann Ünal", 200), (" ann ", 200), ("", 401), ("  ", 401), ("a,b", 400), ("ann\x00", 401),
    ("local", 401), ("admin-token", 401), ("watch", 401), ("x" * 65, 401), ("x" * 64, 200),
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), NAMES)
def test_only_a_name_that_somebody_can_have_is_one(name: str, expected: int) -> None:
    found = outcome(BEHIND, asked(("X-Forwarded-Email", name), peer="10.0.0.1"))
    assert found == ((name.strip(), "viewer") if expected == 200 else expected)


def test_two_identities_are_refused_and_which_one_is_meant_is_not_guessed() -> None:
    other = ("X-Forwarded-Email", "eve@example.com")
    assert outcome(BEHIND, asked(EMAIL, other, peer="10.0.0.1")) == 400
    assert outcome(BEHIND, asked(EMAIL, EMAIL, peer="10.0.0.1")) == 400


def test_a_token_of_ours_counts_more_than_an_identity_and_one_of_somebody_else_does_not() -> None:
    assert outcome(BEHIND, asked(EMAIL, bearer(ALICE), peer="10.0.0.1")) == ("alice", "editor")
    assert outcome(BEHIND, asked(EMAIL, bearer(BOB), peer="10.0.0.1")) == 401, "a token that was revoked, perhaps"
    proxy = outcome(BEHIND, asked(EMAIL, bearer("eyJhbGciOi.J9.x"), peer="10.0.0.1"))
    assert proxy == ("ann@example.com", "viewer"), "a proxy may send on the token of its own login"


def test_S35_wrong_tokens_are_limited_and_right_ones_never() -> None:
    waits: list[float | None] = [None, None, 41.2, 0.001]
    struck: list[str] = []

    def strike(address: str) -> float | None:
        struck.append(address)
        return waits.pop(0)

    access = Access("the-bootstrap-token", book=Book(), front=PROXY, strike=strike)
    assert outcome(access, asked(bearer("wrong"), peer="192.0.2.1")) == 401
    assert outcome(access, asked(EMAIL, peer="192.0.2.2")) == 401
    refused = access.admit(asked(bearer(BOB), peer="192.0.2.3"))
    assert isinstance(refused, Reply)
    assert (refused.status, refused.headers) == (429, {"Retry-After": "42"})
    assert outcome(access, asked(peer="192.0.2.3")) == 401, "nothing was tried"
    assert outcome(access, asked(bearer("the-bootstrap-token"), peer="192.0.2.3")) == BOOTSTRAP
    again = access.admit(asked(("Authorization", "Basic x"), peer=None))
    assert isinstance(again, Reply)
    assert again.headers == {"Retry-After": "1"}
    assert struck == ["192.0.2.1", "192.0.2.2", "192.0.2.3", ""]


def test_no_refusal_repeats_what_was_sent() -> None:
    for access in (GUARDED, BEHIND, OPEN, NOBODY_KNOWS):
        for fields in ((bearer(BOB),), (("X-Forwarded-Email", BOB + ","),), (("Host", BOB),), (("Origin", BOB), EMAIL)):
            found = access.admit(asked(*fields, method="PUT", peer="10.0.0.1"))
            assert isinstance(found, Reply)
            assert BOB not in str(found)
