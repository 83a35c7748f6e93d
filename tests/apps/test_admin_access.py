"""The admin API of a whole service, in this process: who gets where, as its own OpenAPI document says."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from limen.admin.callers import ROLES
from limen.admin.tokens import make_token
from limen.apps.admission import Admission
from limen.apps.settings import Shared
from limen.apps.strikes import Strikes
from limen.testing import ManualClock
from tests.apps.admin_house import BOOTSTRAP, HERE, OUTSIDE, PROXY, House, house, opened, shared

__all__ = ["house", "shared"]

METHODS = {"get", "put", "post", "delete", "patch", "head"}


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    """(method, path with something in its gaps, operation)."""
    for path, methods in document["paths"].items():
        for method in methods.keys() & METHODS:
            yield method.upper(), re.sub(r"\{.*?\}", "1", path), methods[method]


async def test_S36_every_route_lets_every_role_do_what_its_document_says_and_no_more(house: House) -> None:
    async with house.client() as stranger:
        document = (await stranger.get("/openapi.json")).json()
        for method, path, operation in operations(document):
            answer = await stranger.request(method, path)
            assert (answer.status_code, method, path) == (401, method, path)
            assert operation["security"] == [{"HTTPBearer": []}]
            assert operation["x-limen-role"] in ROLES
    count = 0
    for role in ROLES:
        async with house.as_role(role) as client:
            for method, path, operation in operations(document):
                needed = operation["x-limen-role"]
                answer = await client.request(method, path, content="no JSON")
                is_refused = ROLES.index(role) < ROLES.index(needed)
                assert ((answer.status_code == 403), method, path) == (is_refused, method, path), answer.text
                assert not is_refused or needed in answer.json()["detail"]
                assert answer.status_code not in (401, 421, 429)
                count += 1
    assert count > 40


async def test_a_viewer_only_reads_and_an_approver_is_needed_for_tokens(house: House) -> None:
    async with house.client() as stranger:
        document = (await stranger.get("/openapi.json")).json()
    for method, path, operation in operations(document):
        if path.startswith("/admin/tokens"):
            assert operation["x-limen-role"] == "approver"
        elif method == "GET":
            assert operation["x-limen-role"] == "viewer"
    async with house.as_role("viewer") as client:
        refused = await client.put("/admin/rules/search", json={"limit": "0/minute"})
        assert (refused.status_code, refused.headers["content-type"]) == (403, "application/problem+json")
        assert (await client.get("/admin/rules/search")).json()["limit"] == "100/minute"


async def test_S20_a_stranger_does_not_learn_which_addresses_there_are(house: House) -> None:
    async with house.client() as stranger:
        for method, path in (
            ("GET", "/admin/rules"),
            ("GET", "/admin/nothing"),
            ("BREW", "/admin/rules"),
            ("GET", "/admin"),
        ):
            answer = await stranger.request(method, path, content=b"x" * 2_000_000)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == 'Bearer realm="limen admin"'
    async with house.as_role("viewer") as client:
        assert (await client.get("/admin/nothing")).status_code == 404
        assert (await client.post("/admin/rules")).status_code == 405


async def test_S36_no_answer_may_be_framed_guessed_at_or_kept(house: House) -> None:
    async with house.as_role("editor") as client:
        answers = [
            await client.get("/admin/rules"),
            await client.get("/openapi.json"),
            await client.get("/admin/nothing"),
            await client.delete("/admin/rules/search"),
            await client.get("/admin/tokens"),
            await client.get("/admin/rules", headers={"Authorization": ""}),
        ]
    assert [answer.status_code for answer in answers] == [200, 200, 404, 204, 403, 401]
    for answer in answers:
        assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers.get_list("cache-control") == ["no-store"]


async def test_a_token_is_shown_once_and_revoked_at_once(house: House) -> None:
    async with house.as_role("approver") as client:
        made = await client.post(
            "/admin/tokens?reason=night%20shift", json={"name": "bob", "role": "editor", "for": "8h"}
        )
        assert made.status_code == 201
        body = made.json()
        assert (body["name"], body["role"], body["state"], body["created_by"]) == (
            "bob",
            "editor",
            "valid",
            "the approver",
        )
        bob = {"Authorization": f"Bearer {body['token']}"}
        assert (await client.get("/admin/whoami", headers=bob)).json() == {"author": "bob", "role": "editor"}
        listed = (await client.get("/admin/tokens")).json()["tokens"]
        assert {token["name"] for token in listed} == {"the viewer", "the editor", "the approver", "bob"}
        assert body["token"] not in str(listed)
        assert (await client.delete(f"/admin/tokens/{body['id']}")).status_code == 204
        refused = await client.get("/admin/whoami", headers=bob)
        assert (refused.status_code, "revoked" in refused.json()["detail"]) == (401, True)
        missing = await client.delete("/admin/tokens/lmn_somebody-pasted-it-here")
        assert missing.status_code == 404
        assert "pasted" not in missing.text
        assert (await client.post("/admin/tokens", json={"name": "x", "role": "king"})).status_code == 422


async def test_what_is_changed_is_signed_by_whoever_sent_the_token(house: House) -> None:
    async with house.as_role("editor") as client:
        put = await client.put("/admin/rules/search?reason=launch", json={"limit": "200/minute"})
        assert put.status_code == 200
        field = {"X-Limen-Reason": "späte Änderung".encode()}
        assert (await client.put("/admin/rules/search", json={"limit": "300/minute"}, headers=field)).status_code == 200
    found = {each.version: (each.author, each.reason) for each in await house.service.versions("search")}
    assert found == {1: ("local", ""), 2: ("the editor", "launch"), 3: ("the editor", "späte Änderung")}


async def test_S37_everything_that_changes_anything_is_in_the_audit_log_with_its_author(house: House) -> None:
    changes: list[tuple[str, str, Any]] = [
        ("PUT", "/clients/acme", {"plan": "free"}),
        ("POST", "/grants", {"client": "acme", "rule": "search", "tokens": 5}),
        ("POST", "/clients/acme/reset", {"rule": "search"}),
        ("POST", "/drill", {"what": "store-down", "percent": 1, "seconds": 5}),
        ("DELETE", "/drill", None),
        ("DELETE", "/clients/acme", None),
        ("DELETE", "/rules/search", None),
    ]
    before = await house.service.audit()
    async with house.as_role("editor") as client:
        for method, path, body in changes:
            answer = await client.request(method, f"/admin{path}?reason=why&confirm=1", json=body)
            assert answer.is_success, answer.text
    entries = (await house.service.audit())[: -len(before)]
    assert {(entry.author, entry.role) for entry in entries} == {("the editor", "editor")}
    assert all('"reason":"why"' in entry.detail for entry in entries)
    assert [entry.action for entry in reversed(entries)] == [
        "client.put", "bucket.grant", "bucket.reset", "drill.start", "drill.end", "client.delete", "rule.delete",
    ]  # fmt: skip


async def test_a_signature_that_cannot_be_is_422_and_changes_nothing(house: House) -> None:
    async with house.as_role("editor") as client:
        for query in ("reason=" + "x" * 257, "reason=a%0Ab", "reason=%00", "confirm=perhaps", "confirm="):
            refused = await client.put(f"/admin/rules/search?{query}", json={"limit": "200/minute"})
            assert (refused.status_code, query) == (422, query)
        assert (await client.get("/admin/rules/search")).json()["limit"] == "100/minute"


async def test_a_front_proxy_says_who_it_is(house: House) -> None:
    async with house.client("10.1.2.3", **{"X-Forwarded-Email": "ann@example.com"}) as client:
        assert (await client.get("/admin/whoami")).json() == {"author": "ann@example.com", "role": "viewer"}
        assert (await client.put("/admin/rules/search", json={})).status_code == 403
    async with house.client("192.0.2.7", **{"X-Forwarded-Email": "ann@example.com"}) as client:
        assert (await client.get("/admin/whoami")).status_code == 401


async def test_S35_after_ten_wrong_tokens_in_a_minute_an_address_waits_and_a_right_token_does_not(
    shared: Shared, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("limen.apps.way_in.Strikes", lambda: Strikes(clock))
    async with opened(shared, OUTSIDE, PROXY) as house:
        async with house.client("2001:db8:1:2::3", Authorization="Bearer canary-guess") as guessing:
            found = [(await guessing.get("/admin/rules")).status_code for _ in range(12)]
            assert found == [401] * 10 + [429] * 2
            refused = await guessing.get("/admin/rules")
            assert refused.headers["retry-after"] == "6"
            assert refused.headers["content-type"] == "application/problem+json"
            assert (
                await guessing.get("/admin/rules", headers={"Authorization": f"Bearer {BOOTSTRAP}"})
            ).status_code == 200
            clock.advance(seconds=5.999)
            assert (await guessing.get("/admin/rules")).status_code == 429
            clock.advance(seconds=0.001)
            assert (await guessing.get("/admin/rules")).status_code == 401
        async with house.client("2001:db8:1:2:ffff::9", Authorization="Bearer x") as neighbour:
            assert (await neighbour.get("/admin/rules")).status_code == 429, "the same /64"
        async with house.client("2001:db8:1:3::3", Authorization="Bearer x") as other:
            assert (await other.get("/admin/rules")).status_code == 401
    lines = [record.getMessage() for record in caplog.records if "wrong tokens" in record.getMessage()]
    assert lines == ["more than 10 wrong tokens a minute come to the admin API, the last from 2001:db8:1:2::/64"]


async def test_on_its_own_machine_no_token_is_needed_until_there_is_one(shared: Shared) -> None:
    async with opened(shared, HERE, Admission()) as house, house.client("127.0.0.1") as client:
        assert (await client.get("/admin/whoami")).json() == {"author": "local", "role": "approver"}
        assert (await client.get("/admin/whoami", headers={"Host": "evil.example"})).status_code == 421
        put = await client.put("/admin/rules/a", json={"limit": "1/s"}, headers={"Origin": "https://evil.example"})
        assert put.status_code == 403
        asks = {"Origin": "https://evil.example", "Access-Control-Request-Headers": "x-limen-request"}
        preflight = await client.options("/admin/rules/a", headers=asks)
        assert not [name for name in preflight.headers if name.startswith("access-control")]
        assert not house.way_in.access.needs_token
        made = (await client.post("/admin/tokens", json={"name": "ann", "role": "approver"})).json()
        assert house.way_in.access.needs_token
        assert (await client.get("/admin/whoami")).status_code == 401
        ann = {"Authorization": f"Bearer {made['token']}", "Host": "admin.example.com"}
        assert (await client.get("/admin/whoami", headers=ann)).json()["author"] == "ann"
        assert (await client.delete(f"/admin/tokens/{made['id']}", headers=ann)).status_code == 204
        assert (await client.get("/admin/whoami")).status_code == 401, "the door does not open again by itself"


async def test_while_the_database_is_away_it_says_401_and_503_and_never_lets_anybody_in(
    shared: Shared, tmp_path: Path
) -> None:
    nowhere = Shared(store="memory://", rules_db=f"sqlite:///{tmp_path}/never/rules.db", state=tmp_path)
    for listen, admission, token, expected in (
        (OUTSIDE, PROXY, None, 401),
        (OUTSIDE, PROXY, "wrong", 401),
        (OUTSIDE, PROXY, "lmn_", 401),
        (OUTSIDE, PROXY, make_token().text, 503),
        (OUTSIDE, PROXY, BOOTSTRAP, 503),
        (OUTSIDE, Admission(), None, 401),
        (HERE, Admission(), None, 503),
    ):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with opened(nowhere, listen, admission) as house, house.client(**headers) as client:
            answer = await client.get("/admin/rules")
        assert (answer.status_code, token) == (expected, token)
        assert answer.headers["content-type"] == "application/problem+json"


async def test_S30_no_secret_of_an_operator_is_in_a_log_an_answer_a_metric_or_the_audit(
    house: House, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    canaries = [BOOTSTRAP, *house.tokens.values(), "canary-of-a-guess"]
    seen = ""
    for canary in canaries:
        async with house.client(Authorization=f"Bearer {canary}") as client:
            document = (await client.get("/openapi.json")).json()
            for method, path, operation in operations(document):
                if operation["x-limen-role"] != "approver":
                    answer = await client.request(method, path, content="{}")
                    seen += answer.text + str(answer.headers)
            seen += (await client.get("/metrics")).text
            seen += (await client.post("/admin/tokens", content=f'{{"name": "{canary}"')).text
            seen += (await client.get("/admin/audit")).text
    await house.way_in._book.once()
    seen += caplog.text
    kept = b"".join([path.read_bytes() for path in everything_in(tmp_path)])
    for canary in canaries:
        assert canary not in seen
        assert canary.encode() not in kept


def everything_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
