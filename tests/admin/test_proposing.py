"""Previews, and changes for which a second person is needed: through the admin API, over both databases."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx2
import pytest

from limen.admin.access import Access
from limen.admin.buckets import Buckets
from limen.admin.callers import Caller
from limen.admin.guard import Guard
from limen.admin.guard_settings import GuardSettings
from limen.admin.http_api import admin_app
from limen.admin.proposals import LASTS_S
from limen.admin.proposing import Proposing
from limen.admin.records import Signature
from limen.admin.repository import Repository
from limen.admin.service import AdminService
from limen.rules.effect import Effect
from limen.rules.ruleset import RuleSet

NOW = 1_700_000_000
PEOPLE = {name: Caller(name, role) for name, role in (("ada", "editor"), ("bob", "approver"), ("eve", "viewer"))}
WHY = "?propose=1&reason=cheaper"
SEARCH = {"limit": "1000/minute"}
TIGHTER = {"limit": "5/minute"}


class Book:
    """Everybody's token is their name."""

    def find(self, text: str) -> Caller | None:
        return PEOPLE.get(text)

    def is_empty(self) -> bool:
        return False


class Office:
    """An admin API in which changes are approved, and people who use it."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.now = NOW
        self.effect: Effect | None = None
        self.repository = Repository(url, now=lambda: self.now)
        guard = Guard(GuardSettings(**{"mode": "approval", **settings}), self.judge, self.enter)
        self.service = AdminService(self.repository, guard=guard)
        proposing = Proposing(self.repository, self.service, guard, now=lambda: self.now)
        app = admin_app(self.service, cast("Buckets", None), Access(book=Book()), proposing=proposing)
        self.client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://limen")

    async def judge(self, before: RuleSet, after: RuleSet) -> Effect | None:
        return self.effect

    async def enter(self, change: Any, review: Any) -> None:
        await self.repository.watches.begin(change, review, 600)

    async def __call__(
        self, who: str, method: str, path: str, body: Any = None, status: int = 200, **fields: str
    ) -> Any:
        headers = {"authorization": f"Bearer {who}", **{name.replace("_", "-"): text for name, text in fields.items()}}
        content = None if body is None else json.dumps(body)
        answer = await self.client.request(method, f"/admin{path}", content=content, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def limit(self, rule: str = "search") -> str | None:
        found = await self.service.rule(rule)
        return None if found is None else str(json.loads(found.document)["limit"])


def denying(newly: int) -> Effect:
    return Effect(10_000, 10, 0, newly, newly, 0, 1, covered={"search": 10_000})


async def opened(url: str, **settings: Any) -> Office:
    office = Office(url, **settings)
    await office.service.edit({"search": SEARCH})
    return office


@pytest.fixture
async def office(url: str) -> AsyncIterator[Office]:
    office = await opened(url)
    async with office.repository, office.client:
        yield office


@pytest.fixture
async def small(sqlite_url: str) -> AsyncIterator[Office]:
    office = await opened(sqlite_url)
    async with office.repository, office.client:
        yield office


async def test_S37_a_dangerous_change_goes_in_when_a_second_person_approves_it(office: Office) -> None:
    refused = await office("ada", "PUT", "/rules/search?confirm=1&reason=x", TIGHTER, 409)
    assert "?propose=1" in refused["detail"]
    assert refused["preview"]["verdict"] == "refused"
    made = await office("ada", "PUT", f"/rules/search{WHY}", TIGHTER, 202)
    assert (made["id"], made["state"], made["author"], made["reason"]) == (1, "open", "ada", "cheaper")
    assert made["preview"]["dangers"][0]["kind"] == "limit_cut"
    assert await office.limit() == "1000/minute"
    assert await office("eve", "GET", "/proposals/1") == made
    done = await office("bob", "POST", "/proposals/1/approve?reason=agreed")
    assert (done["state"], done["decided_by"]) == ("approved", "bob")
    assert await office.limit() == "5/minute"
    newest = (await office.service.versions("search"))[-1]
    assert (newest.author, newest.revision) == ("bob", done["revision"])
    assert newest.reason == "cheaper (proposal 1 of ada; agreed)"
    actions = [entry.action for entry in await office.service.audit()]
    assert actions[:3] == ["proposal.approve", "rule.put", "proposal.open"]


async def test_S37_nobody_approves_what_they_have_proposed_themselves(small: Office) -> None:
    await small("bob", "PUT", f"/rules/search{WHY}", TIGHTER, 202)
    assert "somebody else" in (await small("bob", "POST", "/proposals/1/approve", status=409))["detail"]
    await small("ada", "POST", "/proposals/1/approve", status=403)
    assert await small.limit() == "1000/minute"


async def test_what_somebody_changed_meanwhile_is_proposed_again(small: Office) -> None:
    await small("ada", "PUT", f"/rules/search{WHY}", TIGHTER, 202)
    await small("ada", "PUT", "/rules/search", {"limit": "900/minute"})
    conflict = await small("bob", "POST", "/proposals/1/approve", status=409)
    assert conflict["current"] == 2
    assert await small.limit() == "900/minute"


async def test_a_rule_that_was_not_there_must_still_not_be_there(small: Office) -> None:
    await small("ada", "PUT", f"/rules/new{WHY}", TIGHTER, 202)
    await small("ada", "PUT", "/rules/new", {"limit": "7/minute"}, 201)
    await small("bob", "POST", "/proposals/1/approve", status=409)
    assert await small.limit("new") == "7/minute"


async def test_several_rules_at_once_all_or_none(office: Office) -> None:
    body = {"rules": {"search": None, "new": {"limit": 0, "match": {"path": "/x"}}}}
    made = await office("ada", "POST", "/proposals?reason=tidy", body, 201)
    assert made["edits"] == body["rules"]
    await office("bob", "POST", f"/proposals/{made['id']}/approve")
    assert (await office.limit(), await office.limit("new")) == (None, "0")


async def test_a_deletion_can_be_proposed(small: Office) -> None:
    await small("ada", "DELETE", f"/rules/search{WHY}", status=202)
    await small("bob", "POST", "/proposals/1/approve")
    assert await small.limit() is None


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/proposals", {"rules": {"search": TIGHTER}}, 422),  # no reason
        ("/proposals?reason=x", {"rules": {}}, 422),
        ("/proposals?reason=x", {"rules": {"search": 5}}, 422),
        ("/proposals?reason=x", {"rules": {"search": TIGHTER}, "more": 1}, 422),
        ("/proposals?reason=x", [], 422),
        ("/proposals?reason=x", {"rules": {"search": {"limit": "many"}}}, 422),
        ("/rules/search/preview", {"limit": "many"}, 422),
        ("/rules/search/preview", None, 400),
        ("/rules/gone/preview", {"delete": True}, 404),
        ("/proposals/7/approve", None, 404),
        ("/proposals/7/reject", None, 404),
        ("/proposals/x/reject", None, 422),
    ],
)
async def test_what_makes_no_sense_is_refused_and_nothing_is_proposed(
    small: Office, path: str, body: Any, status: int
) -> None:
    await small("bob", "POST", path, body, status)
    assert (await small("bob", "GET", "/proposals"))["proposals"] == []


async def test_null_is_no_rule_and_deletes_nothing(small: Office) -> None:
    answer = await small.client.put(
        f"/admin/rules/search{WHY}", content="null", headers={"authorization": "Bearer ada"}
    )
    assert answer.status_code == 422
    answer = await small.client.post(
        "/admin/rules/search/preview", content="null", headers={"authorization": "Bearer ada"}
    )
    assert answer.status_code == 422


async def test_a_proposal_must_fit_what_its_author_saw(small: Office) -> None:
    await small("ada", "PUT", f"/rules/search{WHY}", TIGHTER, 412, if_match='"9"')
    await small("ada", "PUT", f"/rules/search{WHY}", TIGHTER, 202, if_match='"1"')


async def test_a_proposal_lasts_a_day_and_is_decided_once(small: Office) -> None:
    await small("ada", "PUT", f"/rules/search{WHY}", TIGHTER, 202)
    small.now += LASTS_S
    assert "older than a day" in (await small("bob", "POST", "/proposals/1/approve", status=409))["detail"]
    small.now = NOW
    rejected = await small("ada", "POST", "/proposals/1/reject?reason=never+mind")
    assert (rejected["state"], rejected["decided_by"], rejected["decided_why"]) == ("rejected", "ada", "never mind")
    await small("bob", "POST", "/proposals/1/approve", status=409)
    await small("bob", "POST", "/proposals/1/reject", status=409)
    assert await small.limit() == "1000/minute"


async def test_an_approver_is_shown_a_prediction_that_has_grown_and_asked_again(office: Office) -> None:
    office.effect = denying(500)
    await office("ada", "PUT", f"/rules/search{WHY}", {"limit": "500/minute"}, 202)
    office.effect = denying(4000)
    refused = await office("bob", "POST", "/proposals/1/approve", status=409)
    assert "more harm now than when it was proposed" in refused["detail"]
    assert refused["preview"]["effect"]["newly_denied"] == 4000
    renewed = await office("bob", "GET", "/proposals/1")
    assert renewed["preview"]["effect"]["newly_denied"] == 4000
    await office("bob", "POST", "/proposals/1/approve")
    assert await office.limit() == "500/minute"
    assert (await office("eve", "GET", "/watches"))["watches"][0]["predicted"] == 0.4


async def test_a_preview_changes_nothing_and_viewers_may_look(office: Office) -> None:
    office.effect = denying(620)
    shown = await office("eve", "POST", "/rules/search/preview", TIGHTER)
    assert (shown["rule"], shown["verdict"]) == ("search", "refused")
    assert shown["diff"]["search"][0]["kind"] == "lowered"
    assert shown["effect"]["newly_denied_ratio"] == 0.062
    dry = await office("ada", "PUT", "/rules/search?dry_run=1", TIGHTER)
    assert dry["preview"] == {name: value for name, value in shown.items() if name not in ("rule", "warnings")}
    gone = await office("eve", "POST", "/rules/search/preview", {"delete": True})
    assert [danger["kind"] for danger in gone["dangers"]] == ["rule_gone"]
    assert await office.limit() == "1000/minute"
    assert len(await office.service.versions("search")) == 1


async def test_a_refusal_is_409_whatever_the_condition_and_has_a_preview(small: Office) -> None:
    small.effect = denying(620)
    refused = await small("ada", "PUT", "/rules/search", TIGHTER, 409, if_match='"1"')
    assert refused["preview"]["effect"]["newly_denied"] == 620
    await small("ada", "PUT", "/rules/search", TIGHTER, 412, if_match='"7"')


async def test_S37_with_a_confirmed_reason_it_goes_in_and_is_recorded_as_that(sqlite_url: str) -> None:
    office = await opened(sqlite_url, mode="reason")
    async with office.repository, office.client:
        await office("ada", "PUT", "/rules/search?confirm=1", TIGHTER, 409)
        await office("ada", "PUT", "/rules/search?reason=x", TIGHTER, 409)
        await office("ada", "PUT", "/rules/search?confirm=1&reason=the+upstream+is+down", TIGHTER)
        entry = (await office.service.audit())[0]
        detail = json.loads(entry.detail)
        assert (entry.author, detail["reason"], detail["confirmed"]) == ("ada", "the upstream is down", True)


async def test_going_back_takes_a_reason_where_a_second_person_is_needed_too(small: Office) -> None:
    await small("ada", "PUT", f"/rules/search{WHY}", TIGHTER, 202)
    await small("bob", "POST", "/proposals/1/approve")
    await small("ada", "PUT", "/rules/search", SEARCH)
    assert await small.limit() == "1000/minute"
    await small.service.rollback("search", 2, by=Signature("ada", "editor", "it was right after all"))
    assert await small.limit() == "5/minute"


async def test_a_watch_is_listed_and_ended(small: Office) -> None:
    small.effect = denying(20)
    await small("ada", "PUT", "/rules/search", {"limit": "500/minute"})
    (watch,) = (await small("eve", "GET", "/watches"))["watches"]
    assert (watch["state"], watch["rules"], watch["author"]) == ("watching", ["search"], "ada")
    await small("eve", "DELETE", f"/watches/{watch['revision']}", status=403)
    await small("ada", "DELETE", f"/watches/{watch['revision']}?reason=mine", status=204)
    await small("ada", "DELETE", f"/watches/{watch['revision']}", status=404)
    (watch,) = (await small("eve", "GET", "/watches"))["watches"]
    assert (watch["state"], watch["note"]) == ("kept", "ada: mine")
