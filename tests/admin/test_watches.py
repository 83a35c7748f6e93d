"""Changes that are watched: what is written down of them, and what gateways tell."""

import json
from typing import Any

import pytest

from limen import Rule
from limen.admin.guard import Guard
from limen.admin.guard_settings import GuardSettings
from limen.admin.records import UNSIGNED, Signature
from limen.admin.repository import Repository
from limen.admin.review import Review
from limen.admin.watches import KEEP_S, WATCH, Watch
from limen.admin.watching import Tally
from limen.rules.effect import Effect
from limen.rules.ruleset import RuleSet

NOW = 1_700_000_000
KNOWN = Effect(1000, 10, 30, 40, 10, 0, 2, covered={"search": 500})


async def review(before: RuleSet, after: RuleSet, effect: Effect | None = KNOWN) -> Review:
    async def judge(_before: RuleSet, _after: RuleSet) -> Effect | None:
        return effect

    return await Guard(GuardSettings(), judge).look(before, after, UNSIGNED)


async def tightened(effect: Effect | None = KNOWN, **after: Any) -> Review:
    new = Rule("search", **{"limit": "50/minute", **after})
    return await review(RuleSet([Rule("search", limit="100/minute")]), RuleSet([new]), effect)


async def put(repository: Repository, said: Review, by: Signature = UNSIGNED, seconds: int = 600) -> int:
    """Put that in force, and have it watched; its revision."""
    async with repository.change(by=by) as change:
        for rule, document in said.after.items():
            assert document is not None
            await change.put_rule(rule, json.dumps({"id": rule}))
        await repository.watches.begin(change, said, seconds)
        return change.revision


async def watched(repository: Repository) -> Watch | None:
    _, running = await repository.watches.running()
    return running[0] if running else None


async def test_a_change_is_watched_with_what_it_was_predicted_to_do(repository: Repository) -> None:
    revision = await put(repository, await tightened(), UNSIGNED._replace(author="ada"))
    watch = await watched(repository)
    assert watch is not None
    assert (watch.revision, watch.author, watch.state) == (revision, "ada", "watching")
    assert watch.before == {"search": {"id": "search", "key_by": ["client"], "limit": "100/minute"}}
    assert watch.versions == {"search": 1}
    assert (watch.predicted, watch.denied_before) == (0.01, 0.03)
    assert (watch.started, watch.ends) == (NOW, NOW + 600)


@pytest.mark.parametrize(
    ("effect", "after"),
    [
        (None, {}),
        (KNOWN._replace(covered={"other": 900}), {}),
        (KNOWN, {"mode": "shadow"}),
        (KNOWN, {"mode": "off"}),
    ],
)
async def test_what_nobody_can_judge_is_not_watched(
    sqlite_repository: Repository, effect: Effect | None, after: dict[str, Any]
) -> None:
    await put(sqlite_repository, await tightened(effect, **after))
    assert await watched(sqlite_repository) is None


async def test_nothing_is_watched_for_no_time_and_not_what_a_watch_did(sqlite_repository: Repository) -> None:
    await put(sqlite_repository, await tightened(), seconds=0)
    await put(sqlite_repository, await tightened(), UNSIGNED._replace(author=WATCH))
    assert await watched(sqlite_repository) is None


async def test_who_changes_the_rule_again_ends_the_watch_and_begins_another(repository: Repository) -> None:
    first = await put(repository, await tightened())
    second = await put(repository, await tightened(limit="20/minute"), UNSIGNED._replace(author="bob"))
    newest, before = await repository.watches.recent()
    assert (newest.revision, newest.state) == (second, "watching")
    assert (before.revision, before.state, before.note) == (first, "superseded", "bob changed the rules again")


async def test_another_rule_may_change_meanwhile(sqlite_repository: Repository) -> None:
    first = await put(sqlite_repository, await tightened())
    other = await review(RuleSet(), RuleSet([Rule("other", limit="5/minute")]))
    await put(sqlite_repository, other)
    assert [watch.revision for watch in (await sqlite_repository.watches.running())[1]] == [first]


async def test_what_gateways_tell_is_added_up_before_the_change_and_since(repository: Repository) -> None:
    await repository.watches.tell("a", 1, 0, 1000, {"search": 10, "other": 5})
    await repository.watches.tell("b", 1, 0, 500, {})
    revision = await put(repository, await tightened())
    await repository.watches.tell("a", 2, revision - 1, 300, {"search": 3})
    await repository.watches.tell("b", 2, revision, 200, {"search": 40, "other": 1})
    await repository.watches.tell("a", 3, revision + 1, 100, {"search": 20})
    watch = await watched(repository)
    assert watch is not None
    assert await repository.watches.tallies(watch) == (Tally(1800, 13, 18), Tally(300, 60, 61))


async def test_what_is_told_again_counts_once(repository: Repository) -> None:
    revision = await put(repository, await tightened())
    await repository.watches.tell("a", 1, revision, 200, {"search": 40})
    await repository.watches.tell("a", 1, revision, 300, {"search": 50})
    watch = await watched(repository)
    assert watch is not None
    assert (await repository.watches.tallies(watch))[1] == Tally(300, 50, 50)


async def test_what_was_long_before_the_change_is_left_out_and_forgotten_in_the_end(sqlite_url: str) -> None:
    now = NOW - KEEP_S
    async with Repository(sqlite_url, now=lambda: now) as repository:
        await repository.watches.tell("a", 1, 0, 1000, {"search": 10})
        now = NOW
        await put(repository, await tightened())
        watch = await watched(repository)
        assert watch is not None
        assert await repository.watches.tallies(watch) == (Tally(0, 0, 0), Tally(0, 0, 0))
        now += 1
        await repository.watches.tell("a", 64, 0, 1, {})
        assert await repository.watches.tallies(watch._replace(started=0)) == (Tally(1, 0, 0), Tally(0, 0, 0))


async def test_a_watch_ends_once(repository: Repository) -> None:
    revision = await put(repository, await tightened())
    await repository.watches.note(revision, 120, 7, 0.02)
    assert await repository.watches.end(revision, "passed", "2.00 % newly denied")
    assert not await repository.watches.end(revision, "rolled_back", "too late")
    await repository.watches.note(revision, 999, 9, 0.5)
    (ended,) = await repository.watches.recent()
    assert (ended.state, ended.note, ended.requests, ended.denied, ended.seen) == (
        "passed", "2.00 % newly denied", 120, 7, 0.02,
    )  # fmt: skip
