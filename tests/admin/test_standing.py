"""What is said of single clients, from the admin API to a process that follows, over real databases."""

from __future__ import annotations

import json
import sqlite3
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from limen import AsyncLimiter
from limen.admin.http_api import admin_app
from limen.admin.repository import Repository
from limen.admin.saved_standing import StandingFile
from limen.admin.service import AdminService
from limen.admin.standing_service import StandingService
from limen.admin.standing_watcher import StandingWatcher
from limen.errors import RulesUnavailable
from limen.rules.request import Request
from limen.rules.standing import Standing

NOW = 1_700_000_000
CALLER = "203.0.113.9"
RULES = {
    "search": {"limit": "100/minute", "match": {"path": "/**"}},
    "by-ip": {"limit": "100/minute", "key_by": ["ip"]},
    "exports": {"limit": "5 concurrent"},
}


class House:
    """An admin API, a process that follows what is said there, and a clock."""

    def __init__(self, repository: Repository, disk: StandingFile | None = None) -> None:
        self.now: float = NOW
        repository._now = lambda: self.now
        self.repository = repository
        self.limiter = AsyncLimiter("memory://", clock=self)
        self.problems: list[str] = []
        self.errors: list[Exception] = []
        self.swaps = 0
        self.watcher = self.follower(disk)
        self.standing = StandingService(repository, self.watcher.once, lambda: self.now)
        app = admin_app(AdminService(repository), self.limiter, standing=self.standing)
        transport = httpx2.ASGITransport(app, client=(CALLER, 50_000))
        self.client = httpx2.AsyncClient(transport=transport, base_url="http://limen")

    def now_us(self) -> int:
        return round(self.now * 1_000_000)

    def follower(self, disk: StandingFile | None = None) -> StandingWatcher:
        return StandingWatcher(
            self.repository.standing,
            self.use,
            on_problem=self.problems.append,
            on_error=self.errors.append,
            now=lambda: self.now,
            disk=disk,
        )

    def use(self, standing: Standing) -> None:
        self.swaps += 1
        self.limiter.use_standing(standing)

    async def rules(self) -> None:
        async with self.repository.change() as change:
            for rule, document in RULES.items():
                await change.put_rule(rule, json.dumps({"id": rule, **document}))

    async def __call__(self, method: str, path: str, document: Any = None) -> httpx2.Response:
        return await self.client.request(method, f"/admin{path}", json=document)

    async def said(self, method: str, path: str, document: Any = None, status: int = 200) -> Any:
        answer = await self(method, path, document)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def decided(self, **request: str) -> str | None:
        return (await self.limiter.check_request(Request(**request))).standing


@pytest.fixture
async def house(repository: Repository) -> AsyncIterator[House]:
    house = House(repository)
    await house.rules()
    async with house.client:
        yield house


@pytest.fixture
async def sqlite_house(sqlite_repository: Repository, tmp_path: Path, sqlite_url: str) -> AsyncIterator[House]:
    house = House(sqlite_repository, StandingFile(tmp_path / "state", sqlite_url))
    await house.rules()
    async with house.client:
        yield house


async def test_a_block_is_said_listed_replaced_and_taken_back(house: House) -> None:
    made = await house.said("POST", "/blocks", {"client": "acme", "reason": "scraping", "for": "1h"}, 201)
    assert made == {
        "id": 1, "kind": "block", "client": "acme", "until": NOW + 3600, "reason": "scraping", "author": "local",
        "updated_at": NOW,
    }  # fmt: skip
    assert await house.decided(client="acme") == "block"
    again = await house.said("POST", "/blocks", {"client": "acme", "kind": "allow"})
    assert (again["id"], again["kind"], again["until"]) == (1, "allow", None)
    assert await house.decided(client="acme") == "allow"
    assert (await house.said("GET", "/blocks"))["blocks"] == [again]
    await house.said("DELETE", "/blocks/1", status=204)
    assert await house.decided(client="acme") is None
    assert (await house.said("GET", "/blocks"))["blocks"] == []
    await house.said("DELETE", "/blocks/1", status=404)
    assert (await house.said("POST", "/blocks", {"client": "acme"}, 201))["id"] == 1


async def test_what_has_ended_is_not_there_any_more(house: House) -> None:
    await house.said("POST", "/blocks", {"user": "ann", "until": "2023-11-14T22:14:00Z"}, 201)
    await house.said("PUT", "/clients/acme/flags", {"over_quota": True, "for": 60})
    await house.said("PUT", "/overrides/search/clients/acme", {"limit": "5/minute", "for": "1m"}, 201)
    house.now = NOW + 39.9
    assert await house.decided(user="ann") == "block"
    house.now = NOW + 60
    assert [await house.decided(user="ann"), await house.decided(client="acme")] == [None, None]
    for path, key in (("/blocks", "blocks"), ("/flags", "flags"), ("/overrides", "overrides")):
        assert (await house.said("GET", path))[key] == []
    assert await house.said("GET", "/clients/acme/flags") == {"client": "acme", "over_quota": False}
    await house.said("GET", "/overrides/search/clients/acme", status=404)


async def test_flags_come_one_by_one_or_a_thousand_at_a_time(house: House) -> None:
    name = "2001:db8::/64"
    up = await house.said("PUT", f"/clients/{name}/flags", {"over_quota": True, "retry_after": 60})
    assert (up["client"], up["retry_after"], up["until"]) == (name, 60, None)
    assert await house.decided(client=name) == "flag"
    many = [{"client": f"c{n}", "over_quota": True, "for": "1d"} for n in range(999)]
    assert (await house.said("PUT", "/flags", {"flags": [*many, {"client": name, "over_quota": False}]})) == {
        "changed": 1000
    }
    assert [await house.decided(client=each) for each in (name, "c0", "c998")] == [None, "flag", "flag"]
    page = (await house.said("GET", "/flags?after=c998&limit=2"))["flags"]
    assert [flag["client"] for flag in page] == []
    assert len((await house.said("GET", "/flags"))["flags"]) == 999
    swaps, seen = house.swaps, house.watcher.seen
    assert (await house.said("PUT", "/flags", {"flags": many})) == {"changed": 0}
    assert (house.swaps, house.watcher.seen) == (swaps, seen)
    await house.said("DELETE", "/clients/c0/flags", status=204)
    await house.said("DELETE", "/clients/c0/flags", status=404)
    assert await house.decided(client="c0") is None


async def test_limits_of_clients_and_plans(house: House) -> None:
    await house.said("PUT", "/overrides/search/clients/a/b", {"limit": "500/minute", "reason": "a good one"}, 201)
    again = await house.said("PUT", "/overrides/search/clients/a/b", {"limit": "600/minute"})
    assert again == {
        "rule": "search", "client": "a/b", "limit": "600/minute", "until": None, "reason": "", "author": "local",
        "updated_at": NOW,
    }  # fmt: skip
    await house.said("PUT", "/overrides/search/plans/gold", {"limit": "unlimited"}, 201)
    assert [row.get("plan") for row in (await house.said("GET", "/overrides?rule=search"))["overrides"]] == [
        None,
        "gold",
    ]
    assert house.watcher.standing.override("search", "a/b", None, lambda: NOW).limit == "600/minute"  # type: ignore[union-attr]
    await house.said("DELETE", "/overrides/search/clients/a/b", status=204)
    await house.said("DELETE", "/overrides/search/clients/a/b", status=404)
    assert (await house.said("GET", "/overrides/search/plans/gold"))["plan"] == "gold"


WRONG: list[tuple[str, Any, int, list[str | None]]] = [
    ("/overrides/nope/clients/acme", {"limit": "5/minute"}, 404, []),
    ("/overrides/Not An Id/clients/acme", {"limit": "5/minute"}, 404, []),
    ("/overrides/search/clients/acme", {}, 422, ["limit"]),
    ("/overrides/search/clients/acme", {"limit": "5/fortnight"}, 422, ["limit"]),
    ("/overrides/search/clients/acme", {"limit": "5 concurrent"}, 422, ["limit"]),
    ("/overrides/exports/clients/acme", {"limit": "5/minute"}, 422, ["limit"]),
    ("/overrides/by-ip/clients/acme", {"limit": "5/minute"}, 422, ["limit"]),
    ("/overrides/by-ip/plans/gold", {"limit": "5/minute"}, 422, ["limit"]),
    ("/overrides/search/clients/acme", {"limit": "5/minute", "for": -1}, 422, ["for"]),
    ("/overrides/search/clients/acme", {"limit": "5/minute", "for": "1h", "until": 2e9}, 422, ["until"]),
    ("/overrides/search/clients/acme", {"limit": "5/minute", "until": NOW}, 422, ["until"]),
    ("/overrides/search/clients/acme", {"limit": "5/minute", "until": "tomorrow"}, 422, ["until"]),
    ("/clients/acme/flags", {}, 422, ["over_quota"]),
    ("/clients/acme/flags", {"over_quota": 1}, 422, ["over_quota"]),
    ("/clients/acme/flags", {"over_quota": True, "retry_after": 0}, 422, ["retry_after"]),
    ("/clients/acme/flags", {"over_quota": True, "reason": "x" * 257}, 422, ["reason"]),
    ("/clients/acme/flags", ["over_quota"], 422, [None]),
    ("/flags", {"flags": []}, 422, [None]),
    (
        "/flags",
        {"flags": [{"client": "a", "over_quota": True}, {"client": "", "over_quota": True}]},
        422,
        ["flags[1].client"],
    ),
    ("/flags", {"flags": [{"client": "a"}] * 1001}, 422, [None]),
]


async def test_what_makes_no_sense_is_refused_and_changes_nothing(sqlite_house: House) -> None:
    for path, document, status, fields in WRONG:
        told = await sqlite_house.said("PUT", path, document, status)
        assert [problem["field"] for problem in told.get("problems", [])] == fields, path
    assert not sqlite_house.watcher.standing
    assert (await sqlite_house.repository.standing.mark()).standing == 0


NO_BLOCKS: list[Any] = [
    {}, {"client": "acme", "ip": "10.0.0.1"}, {"ip": "acme"}, {"ip": 7}, {"client": ""}, {"client": "a\n"},
    {"client": "acme", "kind": "ban"}, {"client": "acme", "for": "1 fortnight"}, {"client": "acme", "for": 1e30},
    {"client": "acme", "reason": 5}, {"client": "acme", "because": "x"}, [], "acme", {"user": "x" * 257},
]  # fmt: skip


async def test_a_block_that_makes_no_sense_is_refused(sqlite_house: House) -> None:
    for document in NO_BLOCKS:
        assert (await sqlite_house.said("POST", "/blocks", document, 422))["problems"]
    assert (await sqlite_house.said("GET", "/blocks"))["blocks"] == []


async def test_a_slip_that_would_hit_many_takes_a_confirmed_reason(sqlite_house: House) -> None:
    for document, why in (
        ({"ip": "0.0.0.0/0"}, "4,294,967,296 addresses"),
        ({"ip": "10.0.0.0/7", "kind": "allow"}, "33,554,432 addresses"),
        ({"ip": "2000::/15"}, "addresses"),
        ({"ip": "203.0.113.0/24"}, "your own address, 203.0.113.9"),
    ):
        refused = await sqlite_house.said("POST", "/blocks", document, 409)
        assert why in refused["detail"]
        await sqlite_house.said("POST", "/blocks?confirm=1", document, 409)
        made = await sqlite_house.said("POST", "/blocks?confirm=1&reason=under attack", document, 201)
        assert made["reason"] == "under attack"
    for network in ("10.0.0.0/8", "2001::/16", "198.51.100.7"):
        await sqlite_house.said("POST", "/blocks", {"ip": network}, 201)
    for limit in (0, "0/minute", "9/minute"):
        await sqlite_house.said("PUT", "/overrides/search/plans/free", {"limit": limit}, 409)
    await sqlite_house.said("PUT", "/overrides/search/plans/free?confirm=1&reason=abuse", {"limit": 0}, 201)
    await sqlite_house.said("PUT", "/overrides/search/clients/acme", {"limit": 0}, 201)


async def test_a_dry_run_changes_nothing(house: House) -> None:
    await house.said("POST", "/blocks?dry_run=1", {"client": "acme"})
    shown = await house.said("PUT", "/clients/acme/flags?dry_run=1", {"over_quota": True, "for": 60})
    assert (shown["over_quota"], shown["until"], shown["dry_run"]) == (True, NOW + 60, True)
    assert (await house.said("PUT", "/flags?dry_run=1", {"flags": [{"client": "a", "over_quota": True}]}))[
        "changed"
    ] == 1
    await house.said("PUT", "/overrides/search/clients/acme?dry_run=1", {"limit": "5/minute"})
    assert (await house.repository.standing.mark()).standing == 0
    assert len(await house.repository.audit()) == len(RULES)


async def test_everything_is_in_the_audit_log(house: House) -> None:
    await house.said("POST", "/blocks?reason=scraping", {"ip": "192.0.2.0/24", "for": "1h"}, 201)
    await house.said("DELETE", "/blocks/1?reason=sorry", status=204)
    await house.said("PUT", "/clients/acme/flags", {"over_quota": True})
    await house.said("PUT", "/flags", {"flags": [{"client": each, "over_quota": True} for each in ("a", "b")]})
    await house.said("PUT", "/overrides/search/plans/gold", {"limit": "500/minute"}, 201)
    rows = [(row.action, row.subject) for row in reversed(await house.repository.audit())][len(RULES) :]
    assert rows == [
        ("block.put", "ip:192.0.2.0/24"), ("block.delete", "ip:192.0.2.0/24"), ("flag.put", "client:acme"),
        ("flags.put", "clients"), ("override.put", "rule:search"),
    ]  # fmt: skip
    newest = await house.repository.audit()
    assert json.loads(newest[3].detail)["reason"] == "sorry"
    assert set(json.loads(newest[1].detail)["up"]) == {"a", "b"}
    assert (await house.repository.check_audit()).findings == ()


async def test_rules_are_not_loaded_anew_for_a_flag(house: House) -> None:
    revision = await house.repository.revision()
    await house.said("PUT", "/clients/acme/flags", {"over_quota": True})
    assert await house.repository.revision() == revision


async def test_only_what_changed_is_read(house: House) -> None:
    await house.said("PUT", "/flags", {"flags": [{"client": f"c{n}", "over_quota": True} for n in range(500)]})
    seen = house.watcher.seen
    await house.said("PUT", "/clients/acme/flags", {"over_quota": True})
    await house.said("DELETE", "/clients/c7/flags", status=204)
    changes = await house.repository.standing.changes(seen, NOW)
    assert (changes.is_all, {flag.client for flag in changes.rows.flags}) == (False, {"acme", "c7"})
    other = house.follower()
    await other.once()
    assert sorted(map(str, other.standing.entries()[1])) == sorted(map(str, house.watcher.standing.entries()[1]))
    assert other.standing.count()["flag"] == 500


async def test_what_ended_long_ago_is_deleted_and_who_missed_it_begins_anew(house: House) -> None:
    await house.said("POST", "/blocks", {"client": "gone"}, 201)
    late = house.follower()
    await late.once()
    await house.said("DELETE", "/blocks/1", status=204)
    await house.said("PUT", "/clients/brief/flags", {"over_quota": True, "for": "1m"})
    house.now += 3601
    await house.said("POST", "/blocks", {"client": "new"}, 201)
    changes = await house.repository.standing.changes(0, 0)
    assert [block.name for block in changes.rows.blocks] == ["new"]
    assert late.standing.judge("gone", None, None, lambda: house.now) is not None
    await late.once()
    assert [block.name for block in late.standing.entries()[0]] == ["new"]
    assert late.standing.entries()[1] == []
    assert house.errors == []


POISON = [
    ("blocks", {"kind": "ban", "by": "client", "name": "x"}),
    ("blocks", {"kind": "block", "by": "ip", "name": "not a network"}),
    ("blocks", {"kind": "block", "by": "ip", "name": "300.0.0.0/8"}),
    ("blocks", {"kind": "block", "by": "", "name": ""}),
    ("flags", {"client": ""}),
    ("overrides", {"rule": "search", "by": "nobody", "name": "y", "limit": "1/s"}),
    ("overrides", {"rule": "search", "by": "client", "name": "z", "limit": ""}),
]
SIGNED = {"until": None, "reason": "", "author": "psql", "updated_at": NOW, "standing": 2}


async def execute(url: str, *statements: tuple[str, list[Any]]) -> None:
    """Write there by other means than Limen."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
            for statement, values in statements:
                database.execute(statement.replace("$", "?"), values)
        database.close()
        return
    connection = await asyncpg.connect(url)
    for statement, values in statements:
        await connection.execute(statement, *values)
    await connection.close()


async def test_rows_that_somebody_else_wrote_say_nothing_and_stop_nobody(house: House, url: str) -> None:
    await house.said("POST", "/blocks", {"client": "bad"}, 201)
    statements: list[tuple[str, list[Any]]] = [("UPDATE meta SET standing = 2", [])]
    for table, row in POISON:
        fields = {**row, **SIGNED, **({"id": 100 + len(statements)} if table == "blocks" else {})}
        names = ", ".join(f'"{name}"' for name in fields)
        marks = ", ".join(f"${at + 1}" for at in range(len(fields)))
        statements.append((f"INSERT INTO {table} ({names}) VALUES ({marks})", list(fields.values())))
    await execute(url, *statements)
    await house.watcher.once()
    assert house.errors == []
    assert len(house.problems) == len(POISON)
    assert await house.decided(client="bad") == "block"
    await house.said("POST", "/blocks", {"client": "worse"}, 201)
    assert await house.decided(client="worse") == "block"


async def test_an_end_that_cannot_be_read_was_long_ago(sqlite_house: House, sqlite_url: str) -> None:
    house = sqlite_house
    for until in ("x", b"\xff", 1e999, "nan", -1):
        await house.said("POST", "/blocks", {"client": "acme", "for": "1h"}, 201)
        assert await house.decided(client="acme") == "block"
        changed = house.watcher.seen + 1
        change = ("UPDATE blocks SET until = $1, standing = $2", [until, changed])
        await execute(sqlite_url, change, ("UPDATE meta SET standing = $1", [changed]))
        await house.watcher.once()
        assert house.errors == []
        assert await house.decided(client="acme") is None
        await execute(sqlite_url, ("DELETE FROM blocks", []))


async def test_a_start_without_the_database_knows_what_was_saved(sqlite_house: House) -> None:
    house = sqlite_house
    await house.said("POST", "/blocks", {"ip": "192.0.2.0/24", "reason": 'a "ü"'}, 201)
    await house.said("PUT", "/clients/acme/flags", {"over_quota": True, "for": "1h"})
    await house.said("PUT", "/clients/brief/flags", {"over_quota": True, "for": "1m"})
    await house.said("PUT", "/overrides/search/plans/gold", {"limit": "500/minute"}, 201)
    disk = house.watcher._disk
    assert isinstance(disk, StandingFile)
    assert stat.S_IMODE(disk.path.stat().st_mode) == 0o600
    house.now += 61
    restarted = house.follower(disk)
    await restarted.recall()
    assert [len(kind) for kind in restarted.standing.entries()] == [1, 1, 1]
    assert restarted.standing.entries()[0] == house.watcher.standing.entries()[0]
    assert restarted.seen == house.watcher.seen
    await house.said("DELETE", "/blocks/1", status=204)
    await restarted.once()
    assert restarted.standing.entries()[0] == []


async def test_a_damaged_file_is_not_used(sqlite_house: House) -> None:
    await sqlite_house.said("POST", "/blocks", {"client": "acme"}, 201)
    disk = sqlite_house.watcher._disk
    assert isinstance(disk, StandingFile)
    whole = disk.path.read_bytes()
    for damaged in (whole[:-70], whole.replace(b"acme", b"Acme"), b""):
        disk.path.write_bytes(damaged)
        with pytest.raises(RulesUnavailable, match="delete the file"):
            await sqlite_house.follower(disk).recall()


async def test_what_many_said_is_saved_now_and_then_only(sqlite_house: House) -> None:
    house = sqlite_house
    many = [{"client": f"c{n}", "over_quota": True} for n in range(1000)]
    await house.said("PUT", "/flags", {"flags": many})
    disk = house.watcher._disk
    assert isinstance(disk, StandingFile)
    house.now += 61
    await house.said("PUT", "/flags", {"flags": [{"client": f"d{n}", "over_quota": True} for n in range(1000)]})
    saved = disk.load().seen
    await house.said("PUT", "/clients/acme/flags", {"over_quota": True})
    assert disk.load().seen == saved
    house.now += 61
    await house.watcher.once()
    assert disk.load().seen == saved + 1


async def test_a_limiter_with_the_database_as_its_rules_follows_too(sqlite_house: House, sqlite_url: str) -> None:
    await sqlite_house.said("POST", "/blocks", {"client": "bad"}, 201)
    async with AsyncLimiter("memory://", sqlite_url) as limiter:
        assert (await limiter.check("bad", "search")).standing == "block"
        assert (await limiter.check("good", "search")).allowed
