"""What operators say of single clients, on limiters of every kind: who is refused, who passes, under which limit."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import pytest

from limen import AsyncLimiter, Limiter, Rule
from limen.adapters.http import DEFAULT_DIALECTS, denial, dialects, rate_fields
from limen.core.decision import Decision
from limen.engine.aio import AsyncLimiter as Asking
from limen.errors import StoreError, UsageError
from limen.rules.request import Request
from limen.rules.standing import Block, Flag, Override, Standing
from limen.testing import ManualClock
from tests.conftest import ORIGIN_S

pytestmark = pytest.mark.usefixtures("clean_keys")
EVERYTHING = {"path": "/**"}
SEARCH = Rule("search", limit="2/minute", match=EVERYTHING)
WRITERS = dialects(DEFAULT_DIALECTS)


def say(door: Any, *said: Block | Flag | Override) -> None:
    """Put these, and nothing else, in force."""
    kinds = [[each for each in said if isinstance(each, kind)] for kind in (Block, Flag, Override)]
    door.limiter.use_standing(Standing(*kinds))  # type: ignore[arg-type]


async def settled(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def calls(lab: Any) -> int:
    return lab.store_calls() if lab.redis is not None else 0


def problem_type(decision: Decision) -> str:
    return denial(decision, WRITERS).body.decode().partition("http-problem-types#")[2].partition('"')[0]


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ([Block("client", "acme"), Block("client", "acme", "allow")], "allow"),
        ([Block("client", "acme"), Block("user", "ann", "allow")], "block"),
        ([Block("client", "acme", "allow"), Block("user", "ann")], "block"),
        ([Block("client", "acme"), Block("ip", "192.0.2.0/24", "allow")], "block"),
        ([Block("client", "acme", "allow"), Block("ip", "192.0.2.0/24")], "allow"),
        ([Block("ip", "192.0.2.0/24"), Block("ip", "192.0.2.7", "allow")], "allow"),
        ([Block("ip", "0.0.0.0/0", "allow"), Block("ip", "192.0.0.0/16")], "block"),
        ([Block("ip", "192.0.0.0/16", "allow"), Flag("acme")], "allow"),
        ([Flag("acme"), Override("search", "client", "acme", "unlimited")], "flag"),
        ([Block("client", "other"), Flag("other"), Block("ip", "198.51.100.0/24")], None),
    ],
)
async def test_the_first_line_that_fits_decides(
    lab: Any, said: list[Block | Flag | Override], outcome: str | None
) -> None:
    door = await lab.open(SEARCH)
    say(door, *said)
    found = await door.request(Request(client="acme", user="ann", ip="::ffff:192.0.2.7"))
    assert found.standing == outcome
    assert found.allowed == (outcome in ("allow", None))


async def test_a_blocked_client_is_refused_until_its_end_and_no_store_is_asked(lab: Any) -> None:
    door = await lab.open(SEARCH)
    say(door, Block("client", "acme", reason="scraping", until=ORIGIN_S + 90))
    before = calls(lab)
    for second, wait_ms in ((0, 90_000), (30.5, 59_500), (89.9995, 1)):
        lab.at(second)
        for found in (await door.take(), await door.request(Request(client="acme")), await door.peek()):
            assert (found.allowed, found.reason, found.status, found.source) == (False, "blocked", 429, "none")
            assert (found.retry_after_ms, found.rule, found.limit) == (wait_ms, None, None)
    assert calls(lab) == before
    assert problem_type(found) == "abnormal-usage-detected"
    assert b"scraping" not in denial(found, WRITERS).body
    lab.at(90)
    assert (await door.take()).remaining == 1


async def test_a_block_without_an_end_tells_no_time(lab: Any) -> None:
    door = await lab.open(SEARCH)
    say(door, Block("client", "acme"))
    found = await door.take()
    assert found.retry_after_ms is None
    assert "retry-after" not in dict(denial(found, WRITERS).headers)


async def test_a_flag_says_that_the_quota_is_used_up(lab: Any) -> None:
    door = await lab.open(SEARCH)
    say(door, Flag("acme", ORIGIN_S + 86_400, retry_after=60), Flag("zoo", ORIGIN_S + 30))
    acme, zoo = await door.take(), await door.take(client="zoo")
    assert [(each.reason, each.standing, each.retry_after_ms) for each in (acme, zoo)] == [
        ("blocked", "flag", 60_000), ("blocked", "flag", 30_000)
    ]  # fmt: skip
    assert problem_type(acme) == "quota-exceeded"
    assert dict(denial(acme, WRITERS).headers)["retry-after"] == "60"
    assert (await door.take(client="other")).allowed


async def test_who_is_allowed_is_not_limited_and_not_charged(lab: Any) -> None:
    door = await lab.open(SEARCH)
    say(door, Block("client", "acme", "allow"))
    assert all([(await door.request(Request(client="acme"))).allowed for _ in range(5)])
    assert rate_fields(await door.take(), WRITERS) == []
    say(door)
    assert (await door.take()).remaining == 1


async def test_a_bare_name_is_what_the_rule_counts_by(lab: Any) -> None:
    rules = [
        Rule(f"by-{part or 'all'}", limit="9/minute", key_by=[part] if part else []) for part in ("ip", "user", "")
    ]
    door = await lab.open(*rules, Rule("by-plan", limit="9/minute", key_by=["plan"]))
    say(door, Block("ip", "192.0.2.0/24"), Block("user", "ann"), Block("client", "acme"))
    refused = [
        (rule, name)
        for rule in ("by-ip", "by-user", "by-all", "by-plan")
        for name in ("192.0.2.7", "ann", "acme")
        if not (await door.take(client=name, rule=rule)).allowed
    ]
    assert refused == [("by-ip", "192.0.2.7"), ("by-user", "ann"), ("by-all", "acme")]


async def test_a_question_that_makes_no_sense_is_told_so_of_blocked_clients_too(lab: Any) -> None:
    door = await lab.open(SEARCH, Rule("pair", limit="1/s", key_by=["client", "ip"]))
    say(door, Block("client", "acme"))
    for question in ({"rule": "nope"}, {"cost": -1}, {"cost": 1.5}, {"rule": "pair"}):
        with pytest.raises(UsageError):
            await door.take(**question)


async def test_a_limit_of_its_own_counts_in_the_same_bucket(lab: Any) -> None:
    door = await lab.open(SEARCH)
    assert [(await door.take()).remaining for _ in range(2)] == [1, 0]
    assert not (await door.take()).allowed
    say(door, Override("search", "client", "acme", "10/minute"))
    raised = await door.take()
    assert (raised.allowed, raised.limit) == (False, 10)  # what was spent stays spent
    lab.advance(6)
    assert (await door.take()).allowed
    lab.advance(60)
    found = await door.request(Request(client="acme"))
    assert (found.limit, found.remaining) == (10, 9)
    assert ("ratelimit-policy", '"search";q=10;w=60') in rate_fields(found, WRITERS)
    assert (await door.request(Request(client="zoo"))).limit == 2
    say(door)
    lowered = await door.take()
    assert (lowered.limit, lowered.remaining) == (2, 1)  # clamped, and not refilled by that


async def test_a_client_has_its_own_limit_before_that_of_its_plan(lab: Any) -> None:
    door = await lab.open(SEARCH)
    say(door, Override("search", "client", "acme", "20/minute"), Override("search", "plan", "gold", "30/minute"))
    requests = [Request(client="acme", plan="gold"), Request(client="zoo", plan="gold"), Request(client="zoo2")]
    assert [(await door.request(request)).limit for request in requests] == [20, 30, 2]
    anonymous = await door.request(Request(plan="gold", ip="192.0.2.7"))
    assert anonymous.limit == 2  # that bucket is of an address, which has no plan


async def test_unlimited_and_nothing_are_limits_too(lab: Any) -> None:
    door = await lab.open(SEARCH)
    say(door, Override("search", "client", "acme", "unlimited"), Override("search", "client", "zoo", "0/minute"))
    before = calls(lab)
    for _ in range(5):
        assert (await door.take()).allowed
        assert (await door.request(Request(client="acme"))).allowed
        found = await door.take(client="zoo")
        assert (found.allowed, found.reason, found.retry_after_ms) == (False, "exceeds_capacity", None)
    assert calls(lab) == before


async def test_an_unlimited_rule_may_limit_one_client(lab: Any) -> None:
    door = await lab.open(Rule("free", limit="unlimited", match=EVERYTHING))
    say(door, Override("free", "client", "acme", "1/minute"))
    assert [(await door.request(Request(client="acme"))).allowed for _ in range(2)] == [True, False]
    assert all([(await door.request(Request(client="zoo"))).allowed for _ in range(3)])


async def test_a_limit_of_its_own_ends_at_its_time(lab: Any) -> None:
    door = await lab.open(SEARCH)
    say(door, Override("search", "client", "acme", "10/minute", ORIGIN_S + 5))
    assert (await door.take()).limit == 10
    lab.at(5)
    assert (await door.take()).limit == 2


async def test_windows_keep_what_was_spent(lab: Any) -> None:
    rules = [Rule(name, limit="3/hour", algorithm=name) for name in ("fixed_window", "sliding_window", "sliding_log")]
    door = await lab.open(*rules)
    for rule in rules:
        assert (await door.take(cost=3, rule=rule.id)).allowed
    say(door, *(Override(rule.id, "client", "acme", "5/hour") for rule in rules))
    for rule in rules:
        assert [(await door.take(rule=rule.id)).allowed for _ in range(3)] == [True, True, False]


async def test_a_grant_is_on_top_of_the_limit_of_its_own(lab: Any) -> None:
    door = await lab.open(SEARCH)
    say(door, Override("search", "client", "acme", "10/minute"))
    assert (await door.grant(5, 60)).remaining == 15
    assert (await door.take(cost=10)).remaining == 5
    await door.reset()
    assert (await door.take()).remaining == 9


async def test_slots_follow_too(lab: Any) -> None:
    door = await lab.open(Rule("exports", limit="1 concurrent"))
    say(door, Override("exports", "client", "acme", "2 concurrent"), Block("client", "zoo"), Flag("yak"))
    allowed = {}
    for client in ("acme", "other", "zoo", "yak"):
        slots = [door.limiter.slot(client, "exports") for _ in range(3)]
        for slot in slots:
            await settled(slot.__aenter__() if hasattr(slot, "__aenter__") else slot.__enter__())
        allowed[client] = [slot.allowed for slot in slots]
        for slot in slots:
            await settled(
                slot.__aexit__(None, None, None) if hasattr(slot, "__aexit__") else slot.__exit__(None, None, None)
            )
    assert allowed == {
        "acme": [True, True, False],
        "other": [True, False, False],
        "zoo": [False] * 3,
        "yak": [False] * 3,
    }


async def test_many_questions_at_once_follow_too(lab: Any) -> None:
    door = await lab.open(SEARCH)
    say(door, Block("client", "acme"), Override("search", "client", "zoo", "0/minute"))
    found = await door.many([("acme", "search"), ("zoo", "search"), ("other", "search")])
    assert [each.reason for each in found] == ["blocked", "exceeds_capacity", "allowed"]


async def test_an_override_that_does_not_fit_its_rule_any_more_changes_nothing(
    lab: Any, caplog: pytest.LogCaptureFixture
) -> None:
    door = await lab.open(Rule("search", limit="2/minute", algorithm="fixed_window"))
    say(door, Override("search", "client", "acme", "10/month"), Override("gone", "client", "acme", "1/minute"))
    assert [(await door.take()).limit for _ in range(3)] == [2, 2, 2]
    assert caplog.text.count("the limit of client") == 1


async def test_an_override_outlives_a_change_of_its_rule(lab: Any) -> None:
    door = await lab.open(SEARCH)
    say(door, Override("search", "client", "acme", "10/minute"))
    assert (await door.take()).remaining == 9
    door.use(Rule("search", limit="4/minute", match=EVERYTHING, public_name="other"))
    found = await door.take()
    assert (found.limit, found.remaining, found.policy.name) == (10, 8, "other")
    assert (await door.take(client="zoo")).limit == 4


async def test_a_limit_of_its_own_does_not_carry_over_what_the_rule_does(lab: Any) -> None:
    """Whatever a change of the rule gives to others, the limit of this client has not changed."""
    door = await lab.open(Rule("search", limit="4/day", carry_over="reset"))
    say(door, Override("search", "client", "acme", "10/day"))
    assert [(await door.take(cost=cost, client=client)).remaining for client, cost in (("acme", 8), ("zoo", 4))] == [
        2,
        0,
    ]
    door.use(Rule("search", limit="6/day", carry_over="reset"))
    assert [(await door.take(client=client)).remaining for client in ("acme", "zoo")] == [1, 5]


async def test_why_a_request_is_refused_is_told_with_what_the_rules_would_say(lab: Any) -> None:
    door = await lab.open(SEARCH, Rule("free", limit="5/minute", match=EVERYTHING))
    say(
        door,
        Block("ip", "192.0.2.0/24", reason="scraping", until=ORIGIN_S + 60, id=7),
        Override("search", "client", "acme", "10/minute"),
        Override("free", "plan", "gold", "unlimited"),
    )
    told = (await settled(door.limiter.explain(Request(client="acme", plan="gold", ip="192.0.2.9")))).to_json()
    assert (told["decision"]["reason"], told["decision"]["standing"]) == ("blocked", "block")
    assert told["standing"] == {
        "what": "block", "by": "ip", "name": "192.0.2.0/24", "reason": "scraping", "until": ORIGIN_S + 60, "id": 7
    }  # fmt: skip
    rules = {rule["rule"]: rule for rule in told["rules"]}
    assert (rules["search"]["limit"], rules["search"]["override"]["limit"]) == (10, "10/minute")
    assert (rules["search"]["before"], rules["search"]["after"]) == ({"remaining": 10, "reset_after_ms": 0},) * 2
    assert (rules["free"]["why"], rules["free"]["override"]["by"]) == ("it does not limit this client", "plan")


async def test_nothing_said_is_nothing_asked(lab: Any) -> None:
    door = await lab.open(SEARCH)
    say(door, Block("client", "acme", until=0))
    assert not door.limiter.standing
    assert door.limiter._applied is None


shared = pytest.mark.parametrize("lab", ["Valkey", "Limiter, Valkey"], indirect=True)


@shared
async def test_what_was_refused_from_memory_is_asked_again_under_the_new_limit(lab: Any) -> None:
    door = await lab.open(Rule("search", limit="2/day"))
    assert [(await door.take()).source for _ in range(4)] == ["store", "store", "store", "deny_cache"]
    say(door, Override("search", "client", "acme", "100000/day"))
    lab.advance(0.9)
    assert (await door.take()).source == "store"
    lab.advance(60)
    assert (await door.take()).allowed
    say(door, Block("client", "acme"))
    assert (await door.take()).reason == "blocked"


@shared
async def test_leases_are_those_of_the_limit_that_holds(lab: Any) -> None:
    door = await lab.open(Rule("r", limit="20000/minute", lease="auto"))
    say(door, Override("r", "client", "acme", "60000/minute"))
    sources = set()
    for _ in range(100):
        sources.add((await door.take()).source)
        await idle(door)
        lab.advance(0.001)
    assert "lease" in sources
    assert (await door.take()).limit == 60_000
    say(door, Override("r", "client", "acme", "5/hour"))
    await idle(door)
    allowed = 0
    for _ in range(200):
        allowed += (await door.take()).allowed
        await idle(door)
        lab.advance(0.001)
    assert allowed == 5
    say(door, Block("client", "acme"))
    assert (await door.take()).reason == "blocked"


async def idle(door: Any) -> None:
    """Until nobody asks the store about a lease any more."""
    while tasks := list(getattr(getattr(door.limiter, "_borrowing", None), "_tasks", ())):
        await settled_all(tasks)


async def settled_all(tasks: Iterable[Any]) -> None:
    for task in tasks:
        await task


class Nowhere:
    """A store that never answers."""

    state = "down"

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def take(self, ops: Any) -> Any:
        raise StoreError("it is away")

    async def acquire(self, slot: Any) -> Any:
        raise StoreError("it is away")

    grant = reset = renew = release = acquire

    def atomic(self, ops: Any) -> bool:
        return True


@pytest.fixture
def away(clock: ManualClock) -> Asking:
    rules = [Rule("open", limit="10/hour"), Rule("closed", limit="10/hour", on_failure="closed")]
    return AsyncLimiter(Nowhere(), rules, clock=clock)  # type: ignore[arg-type]


async def test_it_holds_while_the_store_is_away(away: Asking) -> None:
    overrides = [Override("open", "client", "acme", "1000/hour"), Override("closed", "client", "acme", "unlimited")]
    away.use_standing(Standing([Block("client", "bad"), Block("client", "good", "allow")], [Flag("full")], overrides))
    for client, rule, reason in (
        ("bad", "closed", "blocked"), ("bad", "open", "blocked"), ("full", "closed", "blocked"),
        ("good", "closed", "allowed"), ("acme", "closed", "allowed"), ("other", "closed", "store_unavailable"),
    ):  # fmt: skip
        found = await away.check(client, rule)
        assert (found.reason, found.degraded) == (reason, reason == "store_unavailable")
    admitted = [(await away.check(client, "open")).allowed for client in ("acme", "other") for _ in range(50)]
    assert sum(admitted[:50]) == 50  # its share begins with a tenth of a thousand
    assert sum(admitted[50:]) == 1


async def test_what_is_owed_stays_owed_under_the_limit_of_its_own(valkey_url: str) -> None:
    """A change of the rule must not clamp the bucket of a client whose own limit is larger."""
    async with AsyncLimiter(valkey_url, [Rule("r", limit="100/day")], deadline_ms=1000) as limiter:
        limiter.use_standing(Standing(overrides=[Override("r", "client", "acme", "1000/day")]))
        assert (await limiter.check("acme", "r", 100)).remaining == 900
        take, limiter._store.take = limiter._store.take, Nowhere().take  # type: ignore[method-assign]
        assert (await limiter.check("acme", "r", 10)).source == "local_share"
        limiter.use_rules([Rule("r", limit="50/day")])
        limiter._store.take = take  # type: ignore[method-assign]
        assert 885 <= ((await limiter.check("acme", "r")).remaining or 0) <= 890


async def test_a_server_that_forgot_is_reminded_of_clients_with_a_limit_of_their_own(valkey_url: str) -> None:
    async with AsyncLimiter(valkey_url, [Rule("r", limit="100/day")], deadline_ms=1000) as limiter:
        limiter.use_standing(Standing(overrides=[Override("r", "client", "acme", "1000/day")]))
        await limiter.check("acme", "r", 600)
        await limiter.check("zoo", "r", 60)
        limiter._store_returned(lambda identity, colocate: True)
        assert sorted((debt.op.identity, debt.op.limit.capacity) for debt in limiter.debts.entries.values()) == [
            ("client=acme", 1000), ("client=zoo", 100)
        ]  # fmt: skip


class Witness:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.told: list[Decision] = []

    def on_decision(self, decision: Decision, duration_us: int) -> None:
        self.told.append(decision)

    def on_store_error(self, kind: str, shard: str) -> None: ...


def test_observers_are_told_of_everybody() -> None:
    witness = Witness()
    with Limiter(rules=[SEARCH], observer=witness) as limiter:
        limiter.use_standing(Standing([Block("client", "bad"), Block("client", "good", "allow")], [Flag("full")]))
        for client in ("bad", "good", "full", "other"):
            limiter.check(client, "search")
            limiter.check_request(Request(client=client))
    assert [each.standing for each in witness.told[::2]] == ["block", "allow", "flag", None]
    assert witness.told[::2][:3] == witness.told[1::2][:3]
