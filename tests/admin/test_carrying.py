"""What is kept beside a rule while its buckets move to a new limit: the same for every gateway, and after a restart."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import text

from limen.admin.last_good import LastGood, Saved
from limen.admin.records import UNSIGNED, StoredRule
from limen.admin.repository import Repository
from limen.admin.service import AdminService
from limen.admin.stored_rules import rule_of, ruleset_of, salvaged
from limen.core.carry import Carry
from limen.rules.carrying import MARGIN_US, settled

NOW = 1_700_000_000
US = 1_000_000
HOUR = 3600


class Time:
    """Unix time that the test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now + 0.9


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def service(url: str, time: Time) -> Any:
    async with await Repository.open(url, now=time) as repository:
        yield AdminService(repository)


async def put(service: AdminService, **fields: Any) -> StoredRule:
    return (await service.put_rule("r", fields)).rule


def carry(stored: StoredRule | None) -> Carry | None:
    assert stored is not None
    return rule_of(stored).carry


async def test_a_new_limit_is_a_new_generation_that_ends_when_all_buckets_are_full(service: AdminService) -> None:
    first = await put(service, limit="100/hour")
    assert first.carry is None
    changed = await put(service, limit="50/hour", carry_over="proportional")
    found = carry(changed)
    assert found is not None
    assert (found.generation, found.how, found.before) == (2, "proportional", rule_of(first).limit)
    assert found.until_us == (NOW + HOUR) * US + MARGIN_US
    assert carry(await service.rule("r")) == found
    _, rules = await service.rules()
    assert [rule.carry for rule in ruleset_of(rules, 2).rules] == [found]


async def test_as_it_is_nothing_is_kept(service: AdminService) -> None:
    await put(service, limit="100/hour")
    assert (await put(service, limit="50/hour")).carry is None
    assert (await put(service, limit="50/hour", carry_over="reset", cost=2)).carry is None


async def test_what_has_begun_goes_on_through_other_changes(service: AdminService, time: Time) -> None:
    await put(service, limit="100/hour")
    begun = carry(await put(service, limit="50/hour", carry_over="additive"))
    time.now += 60
    assert carry(await put(service, limit="50/hour", carry_over="additive", cost=2)) == begun
    again = carry(await put(service, limit="10/hour"))
    assert begun is not None
    assert again is not None
    assert (again.generation, again.how, again.before) == (4, "as-is", begun.before)
    assert again.until_us == begun.until_us + 60 * US


async def test_when_it_is_over_it_is_forgotten_with_the_next_change(service: AdminService, time: Time) -> None:
    await put(service, limit="100/hour")
    await put(service, limit="50/hour", carry_over="additive")
    time.now += HOUR + 61
    assert (await put(service, limit="50/hour", cost=2)).carry is None


async def test_a_rule_that_is_deleted_and_made_again_is_a_generation_of_its_own(service: AdminService) -> None:
    """Else its buckets would go on by the numbers that they are stamped with."""
    await put(service, limit="100/hour")
    await put(service, limit="50/hour", carry_over="reset")
    await service.delete_rule("r")
    found = carry(await put(service, limit="1/hour"))
    assert found is not None
    assert (found.generation, found.how) == (4, "as-is")


@pytest.mark.parametrize("fields", [{"key_by": ["ip"]}, {"colocate": "x"}, {"algorithm": "fixed_window"}])
async def test_other_buckets_are_not_converted(service: AdminService, fields: dict[str, Any]) -> None:
    await put(service, limit="100/hour")
    assert (await put(service, limit="50/hour", carry_over="proportional", **fields)).carry is None


async def test_a_rollback_carries_over_as_the_rule_then_said(service: AdminService) -> None:
    await put(service, limit="100/hour", carry_over="proportional")
    await put(service, limit="50/hour", carry_over="proportional")
    rolled = await service.rollback("r", 1, by=UNSIGNED)
    assert rolled is not None
    found = carry(rolled.rule)
    assert found is not None
    assert (found.generation, found.how) == (3, "proportional")


async def test_numbers_are_kept_as_they_were_written(service: AdminService) -> None:
    first = await put(service, capacity=10, refill_per_sec=1.5)
    found = carry(await put(service, limit="50/hour", carry_over="reset"))
    assert found is not None
    assert found.before == rule_of(first).limit


@pytest.mark.parametrize(
    "spoilt", ["", "null", "[]", "{}", "x", '{"generation": -1}', json.dumps({"generation": 1, "how": "x", "until": 1}),
               json.dumps({"generation": 1, "how": "reset", "before": {"limit": "1/fortnight"}, "until": 1}),
               json.dumps({"generation": 1, "how": "reset", "before": [], "until": 1})],
)  # fmt: skip
async def test_what_somebody_spoilt_means_as_it_is(sqlite_url: str, spoilt: str) -> None:
    async with await Repository.open(sqlite_url) as repository:
        service = AdminService(repository)
        await put(service, limit="100/hour")
        async with repository.change() as change:
            await change.run(text("UPDATE rules SET carry = :spoilt").bindparams(spoilt=spoilt))
            change.record("test", "rule:r")
        assert carry(await service.rule("r")) is None
        assert (await put(service, limit="50/hour")).carry is None


async def test_it_is_among_the_last_good_rules_on_disk(service: AdminService, tmp_path: Any, url: str) -> None:
    await put(service, limit="100/hour")
    await put(service, limit="50/hour", carry_over="reset")
    snapshot = await service._repository.snapshot()
    disk = LastGood(tmp_path / "state", url)
    disk.save(Saved(snapshot, None))
    assert LastGood(tmp_path / "state", url).load().snapshot == snapshot
    assert snapshot.rules[0].carry


def test_the_same_document_with_another_carry_is_another_rule() -> None:
    document = '{"id": "r", "limit": "5/hour"}'
    said = json.dumps({"generation": 2, "how": "reset", "before": {"limit": "9/hour"}, "until": NOW})
    plain, moving = StoredRule("r", document, 1, 1, NOW), StoredRule("r", document, 2, 2, NOW, said)
    good = salvaged([plain]).good
    found = salvaged([moving], good).ruleset.rules[0]
    assert found.carry is not None
    assert found.carry.generation == 2
    assert salvaged([plain], salvaged([moving], good).good).ruleset.rules[0].carry is None


def test_what_is_over_is_taken_off_a_little_later() -> None:
    said = json.dumps({"generation": 2, "how": "reset", "before": {"limit": "9/hour"}, "until": NOW})
    ruleset = ruleset_of([StoredRule("r", '{"id": "r", "limit": "5/hour"}', 2, 2, NOW, said)], 2)
    assert settled(ruleset, NOW * US + MARGIN_US - 1) is ruleset
    after = settled(ruleset, NOW * US + MARGIN_US)
    assert (after.rules[0].carry, after.revision, after.versions) == (None, 2, {"r": 2})
    assert settled(after, NOW * US + MARGIN_US) is after
