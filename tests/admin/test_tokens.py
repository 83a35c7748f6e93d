"""Tokens of the admin API: what they look like, what is kept of them, and how long they are good."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from limen.admin.callers import Caller, NotBelieved
from limen.admin.records import Signature
from limen.admin.repository import Repository
from limen.admin.token_book import TokenBook
from limen.admin.token_service import MOST_VALID, MadeToken, TokenService
from limen.admin.token_table import insert_token
from limen.admin.tokens import StoredToken, digest_of, make_token, token_body, token_id, token_order_from
from limen.errors import Conflict, RuleError, RulesUnavailable
from limen.testing import ManualClock

DAY = 86_400
APPROVED = Signature("ann", "approver", "for the pipeline")


def test_a_token_can_be_found_by_scanners_and_told_from_what_only_looks_like_one() -> None:
    made = [make_token() for _ in range(200)]
    assert all(re.fullmatch("lmn_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}", token.text) for token in made)
    assert all(token_id(token.text) == token.id for token in made)
    assert len({token.text for token in made}) == 200
    text = made[0].text
    others = {text[:at] + ("a" if text[at] != "a" else "b") + text[at + 1 :] for at in range(len(text))}
    assert not any(token_id(other) for other in others), "one wrong character is noticed without asking anybody"
    for wrong in ("", "lmn_", text[:-1], text + "a", text + "\n", " " + text, text.upper(), "lmn_" + "٣" * 58):
        assert token_id(wrong) is None


def test_a_token_is_random_from_its_first_character_to_its_last() -> None:
    made = [make_token().text[13:56] for _ in range(300)]
    assert all(len({text[at] for text in made}) > 50 for at in range(1, 43)), "of 62 characters nearly all were seen"


ORDERS: list[tuple[Any, list[str] | None]] = [
    ({"name": "ci", "role": "editor"}, None),
    ({"name": "ci", "role": "viewer", "for": "12h"}, None),
    ({"name": "Ann Ünal", "role": "approver", "for": 60}, None),
    (None, [None]),
    ([], [None]),
    ({}, ["name", "role"]),
    ({"name": "", "role": "editor"}, ["name"]),
    ({"name": " ci", "role": "editor"}, ["name"]),
    ({"name": "a\nb", "role": "editor"}, ["name"]),
    ({"name": "x" * 65, "role": "editor"}, ["name"]),
    ({"name": "local", "role": "editor"}, ["name"]),
    ({"name": "admin-token", "role": "editor"}, ["name"]),
    ({"name": "watch", "role": "editor"}, ["name"]),
    ({"name": make_token().text, "role": "editor"}, ["name"]),
    ({"name": "ci", "role": "owner"}, ["role"]),
    ({"name": "ci", "role": ["editor"]}, ["role"]),
    ({"name": "ci", "role": "editor", "for": "367d"}, ["for"]),
    ({"name": "ci", "role": "editor", "for": 0}, ["for"]),
    ({"name": "ci", "role": "editor", "for": -1}, ["for"]),
    ({"name": "ci", "role": "editor", "for": float("nan")}, ["for"]),
    ({"name": "ci", "role": "editor", "for": 10**400}, ["for"]),
    ({"name": "ci", "role": "editor", "for": None}, ["for"]),
    ({"name": "ci", "role": "editor", "forever": True}, ["forever"]),
]  # fmt: skip


@pytest.mark.parametrize(("document", "fields"), ORDERS, ids=range(len(ORDERS)))
def test_what_is_ordered_is_checked_field_by_field(document: Any, fields: list[str] | None) -> None:
    if fields is None:
        assert token_order_from(document).name == document["name"]
        return
    with pytest.raises(RuleError) as refused:
        token_order_from(document)
    assert [problem.field for problem in refused.value.problems] == fields


def test_a_token_lives_for_ninety_days_unless_told() -> None:
    assert token_order_from({"name": "ci", "role": "editor"}).seconds == 90 * DAY


async def test_a_token_is_made_found_and_revoked_and_all_of_it_is_in_the_audit_log(repository: Repository) -> None:
    service = TokenService(repository)
    made = await service.create({"name": "ci", "role": "editor", "for": "30d"}, APPROVED)
    assert made.token.expires - made.token.created == 30 * DAY
    assert await service.all() == (made.token,)
    revoked = await service.revoke(made.token.id, APPROVED)
    assert revoked is not None
    assert (await service.all())[0].state(made.token.created) == "revoked"
    assert await service.revoke(made.token.id) == revoked, "it stays as it is"
    assert await service.revoke("nobodys1") is None
    assert await service.revoke("a\x00b") is None
    entries = await repository.audit()
    assert [(entry.author, entry.action, entry.subject) for entry in entries] == [
        ("ann", "token.revoke", f"token:{made.token.id}"),
        ("ann", "token.create", f"token:{made.token.id}"),
    ]
    assert "for the pipeline" in entries[1].detail
    assert await repository.revision() == 0, "gateways need not load anything"


async def test_S30_nothing_that_is_kept_is_enough_to_come_in(repository: Repository) -> None:
    service = TokenService(repository)
    made = await service.create({"name": "ci", "role": "editor"}, APPROVED)
    secret = made.text[13:]
    kept = repr((await service.all(), await repository.audit(), token_body(made.token, 0)))
    assert secret not in kept
    assert made.token.digest == digest_of(made.text)
    assert made.token.digest not in repr((token_body(made.token, 0), await repository.audit()))


async def test_a_token_can_be_revoked_by_whoever_has_found_it(sqlite_repository: Repository) -> None:
    service = TokenService(sqlite_repository)
    made = await service.create({"name": "ci", "role": "editor"})
    revoked = await service.revoke(made.text)
    assert revoked is not None
    assert revoked.id == made.token.id


async def test_there_are_no_more_tokens_than_somebody_looks_after(sqlite_repository: Repository) -> None:
    service = TokenService(sqlite_repository)
    async with sqlite_repository.change() as change:
        for index in range(MOST_VALID):
            until = change.now + 60 if index else change.now
            await insert_token(
                change.connection, StoredToken(f"t{index:07}", "x", "viewer", "", 1, "local", until, None, None)
            )
        change.record("test", "tokens")
    await service.create({"name": "ci", "role": "editor"})
    with pytest.raises(Conflict, match="revoke those"):
        await service.create({"name": "ci", "role": "editor"})
    await service.revoke("t0000001")
    await service.create({"name": "ci", "role": "editor"})


class Shelf:
    """The tokens of a database, that can be away."""

    def __init__(self) -> None:
        self.tokens: dict[str, StoredToken] = {}
        self.away = False
        self.uses: list[dict[str, int]] = []

    def make(self, **fields: Any) -> MadeToken:
        new = make_token()
        token = StoredToken(new.id, "ci", "editor", new.digest, 0, "local", 90 * DAY, None, None)._replace(**fields)
        self.tokens[token.id] = token
        return MadeToken(new.text, token)

    async def all(self) -> tuple[StoredToken, ...]:
        self._check()
        return tuple(self.tokens.values())

    async def note_use(self, used: Any) -> None:
        self._check()
        self.uses.append(dict(used))
        for identity, at in used.items():
            self.tokens[identity] = self.tokens[identity]._replace(last_used=at)

    def _check(self) -> None:
        if self.away:
            raise RulesUnavailable("away")


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def errors() -> list[Exception]:
    return []


@pytest.fixture
def book(shelf: Shelf, clock: ManualClock, errors: list[Exception]) -> TokenBook:
    return TokenBook(shelf, errors.append, now=lambda: clock.now_us() / 1e6)


async def test_the_book_knows_who_sends_a_token(shelf: Shelf, book: TokenBook) -> None:
    made = shelf.make()
    await book.once()
    assert book.find(made.text) == Caller("ci", "editor")
    assert book.find(make_token().text) is None
    assert book.find("") is None
    same_id = f"lmn_{made.token.id}_{make_token().text[13:]}"
    assert book.find(same_id) is None
    assert not book.is_empty()


async def test_a_token_ends_at_its_second(shelf: Shelf, book: TokenBook, clock: ManualClock) -> None:
    made = shelf.make(expires=int(clock.now_us() / 1e6) + 10)
    for _ in range(10):
        await book.once()
        assert book.find(made.text)
        clock.advance(seconds=1)
    await book.once()
    with pytest.raises(NotBelieved, match="expired"):
        book.find(made.text)


async def test_what_is_revoked_elsewhere_is_known_at_the_next_look(shelf: Shelf, book: TokenBook) -> None:
    made = shelf.make()
    await book.once()
    assert book.find(made.text)
    shelf.tokens[made.token.id] = made.token._replace(revoked=5)
    await book.once()
    with pytest.raises(NotBelieved, match="revoked"):
        book.find(made.text)
    assert book.find(f"lmn_{made.token.id}_{make_token().text[13:]}") is None, "a stranger is not told that"


@pytest.mark.parametrize("fields", [{"role": "owner"}, {"role": ""}, {"digest": ""}, {"digest": "é"}])
async def test_a_row_that_somebody_else_wrote_lets_nobody_in(shelf: Shelf, book: TokenBook, fields: Any) -> None:
    made = shelf.make(**fields)
    await book.once()
    assert book.find(made.text) is None


async def test_before_the_first_look_nobody_knows(shelf: Shelf, book: TokenBook, errors: list[Exception]) -> None:
    shelf.away = True
    await book.once()
    for ask in (lambda: book.find(make_token().text), book.is_empty):
        with pytest.raises(RulesUnavailable):
            ask()
    assert book.find("not a token") is None, "that much is known"
    assert len(errors) == 1


async def test_a_token_counts_for_20_s_while_the_database_is_away_so_that_revoking_takes_less_than_30(
    shelf: Shelf, book: TokenBook, clock: ManualClock
) -> None:
    made = shelf.make()
    await book.once()
    shelf.away = True
    clock.advance(seconds=20)
    await book.once()
    assert book.find(made.text)
    clock.advance(seconds=0.001)
    with pytest.raises(RulesUnavailable):
        book.find(made.text)
    assert not book.is_empty(), "and the door of the machine itself does not open for that"
    shelf.away = False
    await book.once()
    assert book.find(made.text)


async def test_when_a_token_was_used_last_is_kept_to_the_hour_and_written_once_in_it(
    shelf: Shelf, book: TokenBook, clock: ManualClock
) -> None:
    made, start = shelf.make(), int(clock.now_us() / 1e6) // 3600 * 3600
    for _ in range(5):
        await book.once()
        book.find(made.text)
    assert shelf.uses == [{made.token.id: start}]
    clock.advance(seconds=3600)
    await book.once()
    book.find(made.text)
    shelf.away = True
    await book.once()
    shelf.away = False
    await book.once()
    assert shelf.uses[1:] == [{made.token.id: start + 3600}], "what could not be written is written later"


async def test_last_use_never_goes_back(repository: Repository) -> None:
    made = await TokenService(repository).create({"name": "ci", "role": "editor"})
    for at in (7200, 3600):
        await repository.tokens.note_use({made.token.id: at, "nobodys1": 5})
    assert [token.last_used for token in await repository.tokens.all()] == [7200]


async def test_a_token_that_is_made_here_is_good_at_once(
    sqlite_repository: Repository, until: Callable[..., Any]
) -> None:
    errors: list[Exception] = []
    book = TokenBook(sqlite_repository.tokens, errors.append, interval_s=1000)
    service = TokenService(sqlite_repository, changed=book.once)
    async with book:
        await until(lambda: book.last_look)
        assert book.is_empty()
        made = await service.create({"name": "ci", "role": "viewer"})
        assert book.find(made.text) == Caller("ci", "viewer")
        await service.revoke(made.token.id)
        with pytest.raises(NotBelieved):
            book.find(made.text)
        await asyncio.gather(*(service.create({"name": f"n{index}", "role": "viewer"}) for index in range(5)))
        assert len(await service.all()) == 6
    assert errors == []
