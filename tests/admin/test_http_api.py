"""The admin API through a real ASGI client, over a real database."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limen import AsyncLimiter, Rule
from limen.admin.access import Access
from limen.admin.http_api import admin_app
from limen.admin.records import Gateway
from limen.admin.repository import Repository
from limen.admin.service import AdminService
from limen.rules.match import BUILDERS
from limen.testing import ManualClock

EXACT = {"match": {"path": "/v1/**"}, "key_by": ["client"], "capacity": 10, "refill_per_sec": 1.5, "on_failure": "open"}
MINUTE = {"limit": "100/minute"}
ACME_KEY = "canary-key-of-acme"
RULES = [
    Rule(id="search", limit="2/minute", key_by=["client"]),
    Rule(id="quota", capacity=2, refill_per_sec=0, match={"path": "/quota"}),
    Rule(id="banned", limit="0/minute", match={"path": "/banned"}),
    Rule(id="free", limit="unlimited", match={"path": "/free"}),
    Rule(id="pair", limit="5/minute", key_by=["client", "ip"], match={"path": "/pair"}),
]


class Admin:
    """An admin API, its client, and what happened behind it."""

    def __init__(self, repository: Repository, limiter: AsyncLimiter) -> None:
        self.repository = repository
        self.limiter = limiter
        self.changes = 0
        self.service = AdminService(repository, changed=self.count)
        self.client = client_of(admin_app(self.service, limiter))

    async def count(self) -> None:
        self.changes += 1

    async def __call__(self, method: str, path: str, document: Any = None, **headers: str) -> httpx2.Response:
        body = None if document is None else json.dumps(document)
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.request(method, f"/admin{path}", content=body, headers=fields)


def client_of(app: FastAPI) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://limen")


@pytest.fixture
async def admin(sqlite_repository: Repository, clock: ManualClock) -> AsyncIterator[Admin]:
    async with AsyncLimiter("memory://", rules=RULES, clock=clock) as limiter:
        admin = Admin(sqlite_repository, limiter)
        async with admin.client:
            yield admin


def assert_problem(answer: httpx2.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["type"]
    assert body["title"]
    assert isinstance(body["detail"], str)
    return dict(body)


async def test_a_rule_is_made_read_replaced_and_deleted(admin: Admin) -> None:
    made = await admin("PUT", "/rules/search", EXACT)
    assert (made.status_code, made.headers["etag"]) == (201, '"1"')
    assert made.json() == {"id": "search", **EXACT, "version": 1}
    read = await admin("GET", "/rules/search")
    assert (read.status_code, read.headers["etag"], read.json()) == (200, '"1"', made.json())
    replaced = await admin("PUT", "/rules/search", {"id": "search", **MINUTE})
    assert (replaced.status_code, replaced.headers["etag"]) == (200, '"2"')
    assert replaced.json() == {"id": "search", **MINUTE, "version": 2}
    gone = await admin("DELETE", "/rules/search")
    assert (gone.status_code, gone.content) == (204, b"")
    assert_problem(await admin("GET", "/rules/search"), 404)
    assert_problem(await admin("DELETE", "/rules/search"), 404)


async def test_the_list_has_every_rule_and_the_revision(admin: Admin) -> None:
    assert (await admin("GET", "/rules")).json() == {"revision": 0, "rules": []}
    await admin("PUT", "/rules/b", MINUTE)
    await admin("PUT", "/rules/a", MINUTE)
    listed = (await admin("GET", "/rules")).json()
    assert listed["revision"] == 2
    assert [(rule["id"], rule["version"]) for rule in listed["rules"]] == [("a", 1), ("b", 1)]


async def test_what_was_read_can_be_sent_back_and_its_version_is_a_condition(admin: Admin) -> None:
    read = (await admin("PUT", "/rules/a", MINUTE)).json()
    assert (await admin("PUT", "/rules/a", {**read, "limit": "5/minute"})).json()["version"] == 2
    assert assert_problem(await admin("PUT", "/rules/a", {**read, "limit": "6/minute"}), 409)["current"] == 2
    assert_problem(await admin("PUT", "/rules/a", {**read, "version": "1"}), 422)


async def test_if_match_keeps_one_operator_from_undoing_another(admin: Admin) -> None:
    await admin("PUT", "/rules/a", MINUTE)
    assert (await admin("PUT", "/rules/a", {"limit": "5/minute"}, if_match='"1"')).status_code == 200
    assert assert_problem(await admin("PUT", "/rules/a", MINUTE, if_match='"1"'), 412)["current"] == 2
    assert_problem(await admin("DELETE", "/rules/a", if_match='"1"'), 412)
    assert_problem(await admin("GET", "/rules/a", if_match='"1"'), 412)
    assert (await admin("GET", "/rules/a")).json()["limit"] == "5/minute"
    assert (await admin("DELETE", "/rules/a", if_match='"1", "2"')).status_code == 204


async def test_stars_mean_anything_and_nothing(admin: Admin) -> None:
    assert_problem(await admin("PUT", "/rules/a", MINUTE, if_match="*"), 412)
    assert_problem(await admin("DELETE", "/rules/a", if_match="*"), 412)
    assert (await admin("PUT", "/rules/a", MINUTE, if_none_match="*")).status_code == 201
    assert_problem(await admin("PUT", "/rules/a", MINUTE, if_none_match="*"), 412)
    assert (await admin("PUT", "/rules/a", MINUTE, if_match="*")).status_code == 200


async def test_a_reader_that_is_up_to_date_gets_no_body(admin: Admin) -> None:
    await admin("PUT", "/rules/a", MINUTE)
    answer = await admin("GET", "/rules/a", if_none_match='"1"')
    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", '"1"')
    assert (await admin("GET", "/rules/a", if_none_match='"7"')).status_code == 200


async def test_a_rule_made_again_is_not_mistaken_for_the_one_that_was_deleted(admin: Admin) -> None:
    await admin("PUT", "/rules/a", MINUTE)
    await admin("DELETE", "/rules/a")
    assert (await admin("PUT", "/rules/a", MINUTE)).status_code == 201
    assert_problem(await admin("PUT", "/rules/a", MINUTE, if_match='"1"'), 412)


async def test_a_dry_run_checks_everything_and_changes_nothing(admin: Admin) -> None:
    await admin("PUT", "/rules/a", MINUTE)
    before, changes = await admin.repository.snapshot(), admin.changes
    would = await admin("PUT", "/rules/a?dry_run=1", {"limit": "5/minute"})
    assert would.status_code == 200
    assert would.json() == {"id": "a", "limit": "5/minute", "version": 2, "dry_run": True}
    assert "etag" not in would.headers
    assert (await admin("DELETE", "/rules/a?dry_run=1")).status_code == 204
    assert (await admin("PUT", "/clients/acme?dry_run=1", {"plan": "gold"})).json()["dry_run"] is True
    assert_problem(await admin("PUT", "/rules/a?dry_run=1", {"limit": "nonsense"}), 422)
    assert_problem(await admin("PUT", "/rules/a?dry_run=1", MINUTE, if_match='"7"'), 412)
    assert_problem(await admin("PUT", "/rules/a?dry_run=perhaps", MINUTE), 422)
    assert await admin.repository.snapshot() == before
    assert admin.changes == changes


async def test_each_change_is_told_once_and_refusals_are_not(admin: Admin) -> None:
    await admin("PUT", "/rules/a", MINUTE)
    await admin("PUT", "/clients/acme", {"plan": "gold"})
    await admin("DELETE", "/rules/a")
    await admin("DELETE", "/clients/acme")
    assert admin.changes == 4
    await admin("PUT", "/rules/a", {"limit": "nonsense"})
    await admin("PUT", "/rules/a", MINUTE, if_match='"7"')
    assert admin.changes == 4


def nested(depth: int) -> str:
    return '{"limit": "1/s", "match": ' + '{"path":' * depth + "1" + "}" * (depth + 1)


BAD_RULES = [
    # body, status, field that is blamed
    ("", 400, None),
    ("limit: 100/minute", 400, None),
    ('{"limit": "1/s"', 400, None),
    (b"\xff", 400, None),
    ('{"capacity": NaN, "refill_per_sec": 1}', 400, None),
    ('{"capacity": 1, "refill_per_sec": Infinity}', 400, None),
    ('{"capacity": 1, "refill_per_sec": 1e999}', 400, None),
    ('{"limit": "1/s", "limit": "2/s"}', 400, None),
    ('{"limit": "1/s", "match": {"path": "/a", "path": "/b"}}', 400, None),
    ('{"limit": "1/s", "public_name": "\\ud800"}', 400, None),
    (nested(20), 400, None),
    (nested(100_000), 400, None),
    ("[" * 500_000, 400, None),
    ('{"limit": "' + "x" * (1 << 20) + '"}', 413, None),
    ("[]", 422, None),
    ("null", 422, None),
    ('"100/minute"', 422, None),
    ("{}", 422, "limit"),
    (nested(5), 422, "match"),
    ('{"limit": "1/s", "colour": "red"}', 422, "colour"),
    ('{"limit": "1/s", "self": 1}', 422, "self"),
    ('{"limit": "1/s", "key-by": []}', 422, "key-by"),
    ('{"limit": "1/s", "match": {"when": "true"}}', 422, "match"),
    ('{"limit": "1/s", "match": {"path": "no-slash"}}', 422, "match"),
    ('{"limit": "1/s", "match": null, "key_by": ["nobody"]}', 422, "key_by"),
    ('{"limit": "1/s", "key_by": "client"}', 422, "key_by"),
    ('{"limit": "1/s", "key_by": [["client"]]}', 422, "key_by"),
    ('{"limit": 100}', 422, "limit"),
    ('{"limit": "100"}', 422, "limit"),
    ('{"limit": "-5/minute"}', 422, "limit"),
    ('{"limit": "1/s", "capacity": 1, "refill_per_sec": 1}', 422, "limit"),
    ('{"capacity": 10}', 422, "refill_per_sec"),
    ('{"capacity": -1, "refill_per_sec": 1}', 422, "capacity"),
    ('{"capacity": 1.5, "refill_per_sec": 1}', 422, "capacity"),
    ('{"capacity": true, "refill_per_sec": 1}', 422, "capacity"),
    ('{"capacity": "10", "refill_per_sec": 1}', 422, "capacity"),
    ('{"capacity": 10, "refill_per_sec": -1}', 422, "refill_per_sec"),
    ('{"capacity": 10, "refill_per_sec": 0}', 422, "refill_per_sec"),
    ('{"capacity": 10, "refill_per_sec": "1"}', 422, "refill_per_sec"),
    ('{"capacity": 1' + "0" * 4000 + ', "refill_per_sec": 1}', 422, "capacity"),
    ('{"capacity": 1, "refill_per_sec": 1' + "0" * 4000 + "}", 422, "refill_per_sec"),
    ('{"limit": "1/s", "on_failure": "maybe"}', 422, "on_failure"),
    ('{"limit": "1/s", "on_failure": {}}', 422, "on_failure"),
    ('{"limit": "1/s", "mode": "on"}', 422, "mode"),
    ('{"limit": "1/s", "cost": -1}', 422, "cost"),
    ('{"limit": "1/s", "cost": 2}', 422, "cost"),
    ('{"limit": "1/s", "rollout": 101}', 422, "rollout"),
    ('{"id": "other", "limit": "1/s"}', 422, "id"),
    ('{"id": null, "limit": "1/s"}', 422, "id"),
    ('{"version": true, "limit": "1/s"}', 422, "version"),
]


@pytest.mark.parametrize(("body", "status", "field"), BAD_RULES, ids=[f"{row[0][:40]!r}" for row in BAD_RULES])
async def test_a_bad_rule_is_refused_with_its_field_and_changes_nothing(
    body: str | bytes, status: int, field: str | None, admin: Admin
) -> None:
    answer = await admin.client.put("/admin/rules/a", content=body)
    problem = assert_problem(answer, status)
    if status == 422:
        assert field in [found["field"] for found in problem["problems"]]
        assert all(found["rule"] == "a" and found["message"] for found in problem["problems"])
    assert await admin.repository.snapshot() == (0, (), ())


async def test_a_limit_of_0_is_a_rule_that_refuses_everything(admin: Admin) -> None:
    assert (await admin("PUT", "/rules/a", {"capacity": 0, "refill_per_sec": 1})).status_code == 201
    assert (await admin("PUT", "/rules/b", {"capacity": 0, "refill_per_sec": 0})).status_code == 201
    assert (await admin("PUT", "/rules/c", {"limit": "0/minute"})).status_code == 201


async def test_all_problems_of_a_rule_are_told_at_once(admin: Admin) -> None:
    answer = await admin("PUT", "/rules/a", {"limit": "nonsense", "mode": "on", "colour": 1})
    assert {found["field"] for found in assert_problem(answer, 422)["problems"]} == {"limit", "mode", "colour"}


@pytest.mark.parametrize("rule_id", ["A", "-a", "a b", "a" * 64, "%00", "%F0%9F%98%80", "..%2e"])
async def test_an_id_that_cannot_be_is_refused_and_not_found(rule_id: str, admin: Admin) -> None:
    assert_problem(await admin("PUT", f"/rules/{rule_id}", MINUTE), 422)
    assert_problem(await admin("GET", f"/rules/{rule_id}"), 404)
    assert_problem(await admin("DELETE", f"/rules/{rule_id}"), 404)


async def test_a_rule_that_spoils_the_set_is_refused(admin: Admin) -> None:
    await admin("PUT", "/rules/first", EXACT)
    problem = assert_problem(await admin("PUT", "/rules/second", EXACT), 422)
    assert problem["problems"][0]["rule"] == "second"
    assert "'first'" in problem["problems"][0]["message"]
    assert (await admin("PUT", "/rules/first", EXACT)).status_code == 200


async def test_of_two_rules_that_spoil_each_other_only_one_gets_in(admin: Admin) -> None:
    answers = await asyncio.gather(*(admin("PUT", f"/rules/r{index}", EXACT) for index in range(5)))
    assert sorted(answer.status_code for answer in answers) == [201, 422, 422, 422, 422]


async def test_a_poisoned_row_can_be_seen_and_mended_or_deleted(admin: Admin) -> None:
    async with admin.repository.change() as change:
        await change.put_rule("bad", '{"id": "bad", "limit": NaN}')
    assert "NaN" in (await admin("GET", "/rules")).json()["rules"][0]["problems"][0]
    assert (await admin("GET", "/rules/bad")).json()["version"] == 1
    assert (await admin("PUT", "/rules/good", MINUTE)).status_code == 201, "other rules do not wait for it"
    assert (await admin("PUT", "/rules/bad", MINUTE)).status_code == 200
    assert (await admin("DELETE", "/rules/bad")).status_code == 204


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=9)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)
MATCHES = st.dictionaries(st.sampled_from(("path", "methods", "host", "plan", "client", "ip", "header")), VALUES)
FIELDS = st.sampled_from(["id", "version", *inspect.signature(Rule).parameters])
DOCUMENTS = (
    VALUES | st.dictionaries(FIELDS, VALUES) | st.builds(lambda match: {"match": match, "limit": "1/s"}, MATCHES)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100)
@given(document=DOCUMENTS)
async def test_whatever_is_sent_as_a_rule_is_taken_or_refused_and_never_an_error_of_ours(
    document: object, admin: Admin
) -> None:
    answer = await admin("PUT", "/rules/fuzzed", document)
    assert answer.status_code in (200, 201, 400, 409, 422)
    if answer.is_success:
        assert (await admin("GET", "/rules")).status_code == 200


async def test_a_client_is_made_read_replaced_and_deleted(admin: Admin) -> None:
    made = await admin("PUT", "/clients/acme", {"plan": "free", "api_keys": [ACME_KEY, "another-key"]})
    assert made.status_code == 201
    body = made.json()
    assert (body["client"], body["plan"], body["api_keys"]) == ("acme", "free", 2)
    assert len(set(body["fingerprints"])) == 2
    read = await admin("GET", "/clients/acme")
    assert (read.json(), read.headers["etag"]) == (body, made.headers["etag"])
    kept = await admin("PUT", "/clients/acme", {"plan": "gold"}, if_match=made.headers["etag"])
    assert kept.status_code == 200
    assert kept.json() == {**body, "plan": "gold"}
    assert_problem(await admin("PUT", "/clients/acme", {"plan": "free"}, if_match=made.headers["etag"]), 412)
    assert (await admin("PUT", "/clients/acme", {"plan": None, "api_keys": []})).json()["fingerprints"] == []
    assert (await admin("DELETE", "/clients/acme")).status_code == 204
    assert_problem(await admin("GET", "/clients/acme"), 404)
    assert_problem(await admin("DELETE", "/clients/acme"), 404)


@pytest.mark.parametrize("name", ["2001:db8::/64", "someone@example.org", "a%20b", "%C3%BC", "a/reset"])
async def test_clients_are_named_as_they_are_known(name: str, admin: Admin) -> None:
    made = await admin("PUT", f"/clients/{name}", {"plan": "free"})
    assert made.status_code == 201
    assert (await admin("GET", f"/clients/{name}")).json() == made.json()


BAD_CLIENTS = [
    ([], None),
    ({"plan": 7}, "plan"),
    ({"plan": ""}, "plan"),
    ({"plan": "x" * 65}, "plan"),
    ({"plan": "a\nb"}, "plan"),
    ({"plan": "free", "colour": "red"}, "colour"),
    ({"api_keys": "canary-key"}, "api_keys"),
    ({"api_keys": None}, "api_keys"),
    ({"api_keys": ["canary-key"] * 1001}, "api_keys"),
    ({"api_keys": ["canary-key", "canary7"]}, "api_keys[1]"),
    ({"api_keys": ["canary" * 50]}, "api_keys[0]"),
    ({"api_keys": ["canary\nkey"]}, "api_keys[0]"),
    ({"api_keys": ["canary key"]}, "api_keys[0]"),
    ({"api_keys": ["canary-kéy"]}, "api_keys[0]"),
    ({"api_keys": [12345678]}, "api_keys[0]"),
]


@pytest.mark.parametrize(("document", "field"), BAD_CLIENTS, ids=range(len(BAD_CLIENTS)))
async def test_a_bad_client_is_refused_with_its_field_and_no_key_is_repeated(
    document: object, field: str | None, admin: Admin
) -> None:
    answer = await admin("PUT", "/clients/acme", document)
    assert [found["field"] for found in assert_problem(answer, 422)["problems"]] == [field]
    assert "canary" not in answer.text
    assert await admin.repository.snapshot() == (0, (), ())


async def test_a_key_of_somebody_else_is_a_conflict(admin: Admin) -> None:
    await admin("PUT", "/clients/acme", {"api_keys": [ACME_KEY]})
    answer = await admin("PUT", "/clients/other", {"api_keys": [ACME_KEY]})
    assert "acme" in assert_problem(answer, 409)["detail"]
    assert "canary" not in answer.text
    assert_problem(await admin("PUT", "/clients/other", {"api_keys": [ACME_KEY]}, if_none_match="*"), 409)
    assert_problem(await admin("PUT", "/clients/other", {"api_keys": [ACME_KEY]}, if_match="*"), 412)


async def test_no_answer_and_no_log_line_holds_an_api_key(admin: Admin, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    answers = [
        await admin("PUT", "/clients/acme", {"plan": "free", "api_keys": [ACME_KEY]}),
        await admin("PUT", "/clients/acme", {"plan": "free"}),
        await admin("PUT", "/clients/other", {"plan": "free", "api_keys": [ACME_KEY]}),
        await admin("GET", "/clients/acme"),
        await admin("PUT", "/clients/acme", {"plan": "free", "api_keys": [ACME_KEY, 7]}),
        await admin.client.put("/admin/clients/acme", content=f'{{"api_keys": ["{ACME_KEY}"'),
    ]
    assert [answer.status_code for answer in answers] == [201, 200, 409, 200, 422, 400]
    assert "canary" not in "".join(f"{answer.text} {answer.headers}" for answer in answers)
    assert "canary" not in caplog.text


async def test_a_reset_makes_buckets_full_again(admin: Admin) -> None:
    await admin.limiter.check("acme", "search", cost=2)
    answer = await admin("POST", "/clients/acme/reset", {"rule": "search"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await admin.limiter.check("acme", "search", cost=2)).allowed
    assert (await admin("POST", "/clients/acme/reset")).status_code == 204
    assert (await admin.limiter.check("acme", "search", cost=2)).allowed


@pytest.mark.parametrize("document", [[], {"rule": 7}, {"rules": ["search"]}, {"rule": "unknown"}])
async def test_a_reset_of_what_is_not_there_is_refused(document: object, admin: Admin) -> None:
    assert_problem(await admin("POST", "/clients/acme/reset", document), 422)


async def test_a_grant_lets_a_client_spend_more_for_a_time(admin: Admin, clock: ManualClock) -> None:
    await admin.limiter.check("acme", "search", cost=2)
    answer = await admin("POST", "/grants", {"client": "acme", "rule": "search", "tokens": 3, "for": "15m"})
    assert answer.status_code == 200
    granted = answer.json()
    state = granted.pop("state")
    assert granted == {"client": "acme", "rule": "search", "tokens": 3, "seconds": 900}
    assert (state["allowed"], state["limit"], state["remaining"]) == (True, 2, 3)
    assert [(await admin.limiter.check("acme", "search")).allowed for _ in range(4)] == [True] * 3 + [False]
    assert not (await admin.limiter.check("other", "search", cost=3)).allowed


@pytest.mark.parametrize(("lasts", "seconds"), [(None, 3600), ("1h", 3600), (90, 90), (0.5, 0.5), ("30d", 2_592_000)])
async def test_a_grant_lasts_as_long_as_it_says(
    lasts: object, seconds: float, admin: Admin, clock: ManualClock
) -> None:
    await admin.limiter.check("acme", "quota", cost=2)
    asked = {"client": "acme", "rule": "quota", "tokens": 2, **({} if lasts is None else {"for": lasts})}
    assert (await admin("POST", "/grants", asked)).json()["seconds"] == seconds
    clock.advance(seconds=seconds - 0.001)
    assert (await admin.limiter.check("acme", "quota")).allowed
    clock.advance(seconds=0.001)
    assert not (await admin.limiter.check("acme", "quota")).allowed


GRANT = {"client": "acme", "rule": "search", "tokens": 5}
BAD_GRANTS = [
    ([], [None]),
    ({}, ["client", "rule", "tokens"]),
    ({**GRANT, "client": ""}, ["client"]),
    ({**GRANT, "client": 7}, ["client"]),
    ({**GRANT, "client": "a\nb"}, ["client"]),
    ({**GRANT, "client": "a" * 257}, ["client"]),
    ({**GRANT, "rule": None}, ["rule"]),
    ({**GRANT, "tokens": 0}, ["tokens"]),
    ({**GRANT, "tokens": -5}, ["tokens"]),
    ({**GRANT, "tokens": 1.5}, ["tokens"]),
    ({**GRANT, "tokens": "5"}, ["tokens"]),
    ({**GRANT, "tokens": True}, ["tokens"]),
    ({**GRANT, "for": "soon"}, ["for"]),
    ({**GRANT, "for": None}, ["for"]),
    ({**GRANT, "for": True}, ["for"]),
    ({**GRANT, "tokens": 0, "for": "1 fortnight", "colour": 1}, ["colour", "tokens", "for"]),
]


@pytest.mark.parametrize(("document", "fields"), BAD_GRANTS, ids=range(len(BAD_GRANTS)))
async def test_a_bad_grant_is_refused_with_its_fields(document: object, fields: list[str], admin: Admin) -> None:
    problem = assert_problem(await admin("POST", "/grants", document), 422)
    assert [found["field"] for found in problem["problems"]] == fields


@pytest.mark.parametrize(
    "wrong",
    [
        {"rule": "unknown"}, {"rule": "banned"}, {"rule": "free"}, {"rule": "pair"}, {"tokens": 10**9 + 1},
        {"for": 0}, {"for": -1}, {"for": "31d"}, {"for": 1e300},
    ],
)  # fmt: skip
async def test_a_grant_that_cannot_be_is_refused(wrong: dict[str, Any], admin: Admin) -> None:
    assert_problem(await admin("POST", "/grants", {**GRANT, **wrong}), 422)
    assert (await admin.limiter.peek("acme", "search")).remaining == 2


async def test_a_grant_needs_its_body(admin: Admin) -> None:
    assert_problem(await admin("POST", "/grants"), 400)
    assert_problem(await admin.client.post("/admin/grants", content='{"tokens": NaN}'), 400)


@pytest.mark.parametrize(("path", "document"), [("/clients/acme/reset", None), ("/grants", GRANT)])
async def test_a_store_that_is_away_is_503(
    path: str, document: Any, sqlite_repository: Repository, free_port: int
) -> None:
    rules = [Rule(id="search", limit="2/minute")]
    async with (
        AsyncLimiter(f"valkey://127.0.0.1:{free_port}", rules) as limiter,
        client_of(admin_app(AdminService(sqlite_repository), limiter)) as client,
    ):
        answer = await client.post(f"/admin{path}", content=document and json.dumps(document))
    assert_problem(answer, 503)
    assert answer.headers["retry-after"] == "5"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/rules"), ("GET", "/rules/a"), ("PUT", "/rules/a"), ("DELETE", "/rules/a"), ("GET", "/clients/a"),
        ("PUT", "/clients/a"), ("DELETE", "/clients/a"),
    ],
)  # fmt: skip
async def test_a_database_that_is_away_is_503(
    method: str, path: str, admin: Admin, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = f"sqlite:///{tmp_path_factory.getbasetemp()}/never/rules.db"
    body = None if method != "PUT" else '{"limit": "1/s"}' if "rules" in path else "{}"
    async with Repository(url) as repository, client_of(admin_app(AdminService(repository), admin.limiter)) as client:
        answer = await client.request(method, f"/admin{path}", content=body)
    assert_problem(answer, 503)
    assert answer.headers["retry-after"] == "5"


async def test_the_gateways_are_listed_with_what_they_have(admin: Admin) -> None:
    assert (await admin("GET", "/gateways")).json() == {
        "revision": 0, "alive": 0, "most": 0, "drill": None, "gateways": []
    }  # fmt: skip
    await admin("PUT", "/rules/a", MINUTE)
    for name, revision in (("first", 1), ("second", 0)):
        told = Gateway(name, "host", 1, "gateway", 5, revision, "ready", "up", 0.0)
        await admin.repository.presence.beat(told)
    listed = (await admin("GET", "/gateways")).json()
    assert (listed["alive"], listed["most"]) == (2, 2)
    assert [(each["id"], each["behind"], each["alive"]) for each in listed["gateways"]] == [
        ("first", False, True),
        ("second", True, True),
    ]
    assert listed["gateways"][0]["store"] == "up"


async def test_a_drill_is_started_shown_and_ended(admin: Admin) -> None:
    order = {"what": "store-down", "percent": 10, "seconds": "15m", "reason": "game day"}
    assert (await admin("GET", "/drill")).json() == {"drill": None}
    assert_problem(await admin("DELETE", "/drill"), 404)
    started = await admin("POST", "/drill", order)
    assert started.status_code == 200
    assert started.json()["ends"] - started.json()["started"] == 900
    shown = (await admin("GET", "/drill")).json()["drill"]
    assert 890 < shown.pop("seconds_left") <= 900
    assert shown == started.json()
    assert (await admin("GET", "/gateways")).json()["drill"]["percent"] == 10
    assert (await admin("DELETE", "/drill")).status_code == 204
    assert (await admin("GET", "/drill")).json() == {"drill": None}
    assert admin.changes == 3, "whoever decides here is told at once, of a DELETE that found nothing too"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"what": "earthquake"}, "what"),
        ({"what": None}, "what"),
        ({"percent": 0}, "percent"),
        ({"percent": 100.1}, "percent"),
        ({"percent": -1}, "percent"),
        ({"percent": True}, "percent"),
        ({"percent": "10"}, "percent"),
        ({"seconds": 0}, "seconds"),
        ({"seconds": 3601}, "seconds"),
        ({"seconds": "2h"}, "seconds"),
        ({"seconds": "soon"}, "seconds"),
        ({"seconds": None}, "seconds"),
        ({"reason": 5}, "reason"),
        ({"reason": "x" * 257}, "reason"),
        ({"reason": "two\nlines"}, "reason"),
        ({"for": "1h"}, "for"),
    ],
)
async def test_a_drill_that_makes_no_sense_is_422_and_nothing_begins(admin: Admin, change: Any, field: str) -> None:
    order = {"what": "store-down", "percent": 10, "seconds": 60, **change}
    body = assert_problem(await admin("POST", "/drill", order), 422)
    assert [problem["field"] for problem in body["problems"]] == [field]
    assert (await admin("GET", "/drill")).json() == {"drill": None}


async def test_addresses_and_methods_that_are_not_there_are_problems_too(admin: Admin) -> None:
    assert_problem(await admin("GET", "/nothing"), 404)
    assert_problem(await admin("GET", "/rules/"), 404)
    refused = await admin("POST", "/rules/a", MINUTE)
    assert_problem(refused, 405)
    assert refused.headers["allow"]


ROUTES = [
    ("GET", "/rules"), ("GET", "/rules/a"), ("PUT", "/rules/a"), ("DELETE", "/rules/a"), ("GET", "/clients/a"),
    ("PUT", "/clients/a"), ("DELETE", "/clients/a"), ("POST", "/clients/a/reset"), ("POST", "/grants"),
    ("GET", "/gateways"), ("GET", "/drill"), ("POST", "/drill"), ("DELETE", "/drill"),
    ("GET", "/rules/a/bound"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_S35_whoever_does_not_know_the_token_gets_nowhere(method: str, path: str, admin: Admin) -> None:
    async with client_of(admin_app(admin.service, admin.limiter, Access("tökén-🔑"))) as client:
        for given in (None, "", "Bearer", "Bearer wrong", "Basic dDp0", "Bearer t\xc3\xb6k\xc3\xa9n", "tökén-🔑"):
            headers = {} if given is None else {"authorization": given.encode()}
            answer = await client.request(method, f"/admin{path}", content="not json", headers=headers)
            assert_problem(answer, 401)
            assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_whoever_knows_the_token_gets_in(admin: Admin) -> None:
    async with client_of(admin_app(admin.service, admin.limiter, Access("s3cret-token"))) as client:
        client.headers["authorization"] = "Bearer s3cret-token"
        assert (await client.put("/admin/rules/a", json=MINUTE)).status_code == 201


async def test_the_openapi_document_names_every_route_with_its_body_and_its_problems(admin: Admin) -> None:
    document = (await admin.client.get("/openapi.json")).json()
    routes = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert routes >= {
        ("GET", "/admin/rules"), ("GET", "/admin/rules/{rule_id}"), ("PUT", "/admin/rules/{rule_id}"),
        ("DELETE", "/admin/rules/{rule_id}"), ("GET", "/admin/clients/{client}"), ("PUT", "/admin/clients/{client}"),
        ("DELETE", "/admin/clients/{client}"), ("POST", "/admin/clients/{client}/reset"), ("POST", "/admin/grants"),
        ("GET", "/admin/gateways"), ("GET", "/admin/drill"), ("POST", "/admin/drill"), ("DELETE", "/admin/drill"),
        ("GET", "/admin/rules/{rule_id}/bound"),
    }  # fmt: skip
    put = document["paths"]["/admin/rules/{rule_id}"]["put"]
    rule = put["requestBody"]["content"]["application/json"]["schema"]
    assert rule["properties"].keys() == {*inspect.signature(Rule).parameters, "version", "warnings"}
    assert rule["properties"]["match"]["properties"].keys() == {*BUILDERS, "path"}
    grant = document["paths"]["/admin/grants"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(grant["properties"]) == {"client", "rule", "tokens", "for"}
    assert "application/problem+json" in put["responses"]["422"]["content"]
    assert {parameter["name"] for parameter in put["parameters"]} >= {
        "rule_id", "dry_run", "if-match", "if-none-match", "reason", "x-limen-reason", "confirm"
    }  # fmt: skip


async def test_the_openapi_document_says_that_a_token_is_needed(admin: Admin) -> None:
    async with client_of(admin_app(admin.service, admin.limiter, Access("s3cret-token"))) as client:
        document = (await client.get("/openapi.json")).json()
    assert document["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    assert document["paths"]["/admin/rules"]["get"]["security"]
