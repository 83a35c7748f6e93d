"""What the guard says to a change, by the traffic that it is shown."""

from typing import Any

import pytest

from limen import Rule
from limen.admin.guard import Guard, Judge, needs_confirmation
from limen.admin.guard_settings import GuardSettings
from limen.admin.records import UNSIGNED, Signature
from limen.errors import GuardRefused, RulesUnavailable, SettingsError
from limen.rules.effect import Affected, Effect
from limen.rules.ruleset import RuleSet

BEFORE = RuleSet([Rule("search", limit="1000/minute")])
TIGHTER = RuleSet([Rule("search", limit="500/minute")])
ZERO = RuleSet([Rule("search", limit=0)])
LIMITED = RuleSet([Rule("search", limit="1000/minute"), Rule("new", limit="5/minute")])
CONFIRMED = Signature("ada", "editor", "the pager says so", confirmed=True)


def effect(newly_denied: int, requests: int = 10_000) -> Effect:
    plans = {"free": newly_denied} if newly_denied else {}
    most = (Affected("k-1", "free", newly_denied),) if newly_denied else ()
    return Effect(requests, 10, 50, 50 + newly_denied, newly_denied, 0, 1, plans, {"search": newly_denied}, 5.0, most)


def saying(found: Effect | Exception | None) -> Judge:
    async def judge(before: RuleSet, after: RuleSet) -> Effect | None:
        if isinstance(found, Exception):
            raise found
        return found

    return judge


def guard(found: Effect | Exception | None = None, **settings: Any) -> Guard:
    return Guard(GuardSettings(**settings), saying(found))


@pytest.mark.parametrize(("newly_denied", "verdict"), [(0, "allowed"), (100, "allowed"), (101, "refused")])
async def test_more_than_a_per_cent_newly_denied_is_held_up(newly_denied: int, verdict: str) -> None:
    review = await guard(effect(newly_denied)).look(BEFORE, TIGHTER, UNSIGNED)
    assert review.verdict == verdict


async def test_the_per_cent_is_a_setting() -> None:
    assert (await guard(effect(900), percent=10).look(BEFORE, TIGHTER, UNSIGNED)).verdict == "allowed"
    assert (await guard(effect(1), percent=0).look(BEFORE, TIGHTER, UNSIGNED)).verdict == "refused"


async def test_a_refusal_says_why_and_what_to_do_and_carries_the_preview() -> None:
    with pytest.raises(GuardRefused) as caught:
        await guard(effect(620)).review(BEFORE, TIGHTER, UNSIGNED)
    assert "6.20 % of the requests, 620 of 10000" in str(caught.value)
    assert "?confirm=1&reason=" in str(caught.value)
    preview = caught.value.preview
    assert preview["verdict"] == "refused"
    assert preview["effect"]["plans"] == {"free": 620}
    assert preview["effect"]["most"] == [{"client": "k-1", "plan": "free", "newly_denied": 620}]
    assert preview["diff"]["search"][0] == {
        "field": "limit", "kind": "lowered", "before": "1000/minute", "after": "500/minute", "factor": 0.5,
    }  # fmt: skip


async def test_a_confirmed_reason_lets_it_through_and_half_of_that_does_not() -> None:
    held = guard(effect(620))
    assert (await held.review(BEFORE, TIGHTER, CONFIRMED)).verdict == "released"
    for by in (CONFIRMED._replace(confirmed=False), CONFIRMED._replace(reason=" "), UNSIGNED):
        with pytest.raises(GuardRefused):
            await held.review(BEFORE, TIGHTER, by)


async def test_where_a_second_person_is_needed_no_reason_is_enough() -> None:
    with pytest.raises(GuardRefused, match=r"\?propose=1"):
        await guard(effect(620), mode="approval").review(BEFORE, TIGHTER, CONFIRMED)
    assert (await guard(effect(10), mode="approval").review(BEFORE, TIGHTER, UNSIGNED)).verdict == "allowed"


async def test_switched_off_it_tells_and_lets_everything_through() -> None:
    review = await guard(effect(10_000), mode="off").review(BEFORE, ZERO, UNSIGNED)
    assert review.verdict == "released"
    assert len(review.held) == 2


async def test_a_limit_of_0_is_held_up_whatever_the_traffic_says() -> None:
    for found in (None, effect(0)):
        with pytest.raises(GuardRefused, match="the limit becomes 0"):
            await guard(found).review(BEFORE, ZERO, UNSIGNED)


async def test_a_cut_is_a_setting() -> None:
    assert (await guard(effect(0), cut=2).look(BEFORE, TIGHTER, UNSIGNED)).verdict == "allowed"
    assert (await guard(effect(0), cut=1.5).look(BEFORE, TIGHTER, UNSIGNED)).verdict == "refused"


async def test_a_new_limit_without_any_traffic_goes_in_and_the_review_says_that_nobody_could_judge() -> None:
    review = await guard(None).review(BEFORE, LIMITED, UNSIGNED)
    assert (review.verdict, review.effect, review.watch) == ("allowed", None, False)
    assert review.unjudged == "there is no traffic to judge by"
    assert (await guard(Effect(0, 0, 0, 0, 0, 0, 0)).look(BEFORE, LIMITED, UNSIGNED)).effect is None


@pytest.mark.parametrize("error", [RulesUnavailable("gone"), ValueError("rubbish in a row")])
async def test_a_sample_that_cannot_be_read_keeps_nobody_from_the_rules(error: Exception) -> None:
    review = await guard(error).review(BEFORE, TIGHTER, UNSIGNED)
    assert review.verdict == "allowed"
    assert "cannot be replayed" in review.unjudged
    with pytest.raises(GuardRefused):
        await guard(error).review(BEFORE, ZERO, UNSIGNED)


@pytest.mark.parametrize("mode", ["reason", "approval"])
async def test_going_back_takes_a_reason_and_nothing_else(mode: Any) -> None:
    held = guard(effect(5000), mode=mode)
    at_night = UNSIGNED._replace(reason="search is down for everybody")
    assert (await held.review(BEFORE, TIGHTER, at_night, action="rollback")).verdict == "released"
    with pytest.raises(GuardRefused, match="going back to what was in force"):
        await held.review(BEFORE, TIGHTER, UNSIGNED, action="rollback")
    assert (await guard(effect(0), mode=mode).review(BEFORE, TIGHTER, UNSIGNED, action="rollback")).held == ()


async def test_nothing_that_changes_needs_no_judge() -> None:
    review = await guard(ValueError("is not asked")).look(BEFORE, BEFORE, UNSIGNED)
    assert (review.verdict, review.before, review.unjudged) == ("allowed", {}, "nothing would change")


async def test_other_dangerous_things_ask_for_a_confirmed_reason_too() -> None:
    needs_confirmation("this blocks half the internet", CONFIRMED)
    with pytest.raises(GuardRefused, match="this blocks half the internet") as caught:
        needs_confirmation("this blocks half the internet", CONFIRMED._replace(confirmed=False))
    assert caught.value.preview["verdict"] == "refused"


@pytest.mark.parametrize(
    "wrong", [{"mode": "maybe"}, {"percent": -1}, {"percent": 101}, {"cut": 0.5}, {"watch_minutes": 61}]
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong)).replace("mode", "guard")):
        GuardSettings(**wrong)


async def test_where_a_second_person_is_needed_a_broken_sample_needs_one_too() -> None:
    broken = guard(RulesUnavailable("gone"), mode="approval")
    with pytest.raises(GuardRefused, match="nobody knows what it would do"):
        await broken.review(BEFORE, TIGHTER, CONFIRMED)
    assert (await guard(None, mode="approval").review(BEFORE, TIGHTER, UNSIGNED)).verdict == "allowed"


@pytest.mark.parametrize(
    ("found", "after", "watched"),
    [
        (effect(10)._replace(covered={"search": 100}), TIGHTER, True),
        (effect(10)._replace(covered={"search": 99}), TIGHTER, False),
        (effect(10)._replace(covered={"other": 9000}), TIGHTER, False),
        (effect(0)._replace(covered={"search": 9000}), RuleSet([Rule("search", limit="2000/minute")]), False),
        (
            effect(0)._replace(covered={"search": 9000}),
            RuleSet([Rule("search", limit="1000/minute", tags=["x"])]),
            False,
        ),
        (effect(0)._replace(covered={"search": 9000}), RuleSet(), False),
    ],
)
async def test_what_may_deny_more_is_watched_where_the_sample_knew_its_traffic(
    found: Effect, after: RuleSet, watched: bool
) -> None:
    assert (await guard(found).look(BEFORE, after, UNSIGNED)).watch is watched
