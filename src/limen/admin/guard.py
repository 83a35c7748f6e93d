"""Stands between an operator and a change that would hurt: what it would do is looked at before it is done.

A change is held up when the traffic of the last hours says that it would deny more than so many per cent of the
requests newly, or when the rules alone are reason enough (`limen.rules.dangers`). Where there is no traffic to judge
by, only the latter counts. What is held up goes in with a confirmed reason, or when a second person approves it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from limen.admin.guard_settings import GuardSettings
from limen.admin.records import Signature
from limen.admin.review import Review
from limen.admin.watching import ENOUGH
from limen.errors import GuardRefused, LimenError
from limen.rules.dangers import Danger, dangers, may_deny_more, touched
from limen.rules.diff import differences, differences_to_document
from limen.rules.effect import Effect
from limen.rules.ruleset import RuleSet

if TYPE_CHECKING:
    from limen.admin.change import Change

__all__ = ["Enter", "Guard", "Judge", "Reviewing", "needs_confirmation", "refusal"]

log = logging.getLogger("limen.rules")

Judge = Callable[[RuleSet, RuleSet], Awaitable[Effect | None]]
"""What going from one set to the other would have done to the traffic that was sampled; None: nothing was."""
Enter = Callable[["Change", Review], Awaitable[None]]
"""Is told within the transaction of a change what had been said about it."""

PATIENCE_S = 20.0
"""The longest that a change waits to be judged. Without a judgement it is not held up for what nobody knows."""
MOST_LOOKING = 2
CONFIRM = "send it again with ?confirm=1&reason=WHY (on the command line --confirm --reason WHY); it is recorded"
PROPOSE = (
    "send it again with ?propose=1&reason=WHY (on the command line --propose --reason WHY),"
    " and let a second person with the role approver approve it"
)
BROKEN = "the sample of the traffic cannot be replayed, so nobody knows what it would do"
RECALL = "send it again with ?reason=WHY (--reason WHY): going back to what was in force takes no more than that"


class Reviewing(Protocol):
    """Who is asked before rules change."""

    async def look(self, before: RuleSet, after: RuleSet, by: Signature, *, action: str = "put") -> Review: ...
    async def review(self, before: RuleSet, after: RuleSet, by: Signature, *, action: str = "put") -> Review: ...
    async def enter(self, change: Change, review: Review) -> None: ...


async def nobody(before: RuleSet, after: RuleSet) -> Effect | None:
    """There is no sample."""
    return None


class Guard:
    """See the module.

    Args:
        settings: when it holds a change up.
        judge: knows the traffic of the last hours.
        enter: is told of each change that goes in, within its transaction.
    """

    def __init__(self, settings: GuardSettings, judge: Judge = nobody, enter: Enter | None = None) -> None:
        self.settings = settings
        self._judge = judge
        self._enter = enter
        self._looking = asyncio.Semaphore(MOST_LOOKING)

    async def look(self, before: RuleSet, after: RuleSet, by: Signature, *, action: str = "put") -> Review:
        """What the change would do, and what would be said about it. Refuses nothing. Those who only look take turns,
        so that a replay for somebody who changes something is not late because of them."""
        async with self._looking:
            return await self._looked(before, after, by, action)

    async def _looked(self, before: RuleSet, after: RuleSet, by: Signature, action: str) -> Review:
        cut = Fraction(self.settings.cut)
        seen = await asyncio.to_thread(_read, before, after, action, cut)  # a file may have a thousand rules
        if not seen.before:
            return seen._replace(unjudged="nothing would change")
        effect, unjudged, broken = await self._judged(before, after)
        held = self._held(seen.dangers, effect) + ((BROKEN,) if broken and self.settings.mode == "approval" else ())
        return seen._replace(
            effect=effect,
            unjudged=unjudged,
            held=held,
            advice=self._advice(action),
            released=bool(held) and self._releases(by, action),
            watch=_worth_watching(before, after, seen.before, effect),
        )

    async def review(self, before: RuleSet, after: RuleSet, by: Signature, *, action: str = "put") -> Review:
        """
        Raises:
            GuardRefused: the change must not go in like this.
        """
        found = await self._looked(before, after, by, action)
        if found.verdict == "refused":
            raise refusal(found)
        return found

    async def enter(self, change: Change, review: Review) -> None:
        """The change goes in: whoever watches it is told, in its transaction."""
        if self._enter is not None:
            await self._enter(change, review)

    async def _judged(self, before: RuleSet, after: RuleSet) -> tuple[Effect | None, str, bool]:
        """(what it would do, why nobody knows, whether somebody should know)."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                effect = await self._judge(before, after)
        except (LimenError, TimeoutError) as error:
            return None, f"the sample of the traffic cannot be replayed: {str(error) or 'it takes too long'}", True
        except Exception:  # a row of the sample that nobody can read must not keep an operator from the rules
            log.exception("the sample of the traffic cannot be replayed")
            return None, "the sample of the traffic cannot be replayed; the log says why", True
        if effect is None or not effect.requests:
            return None, "there is no traffic to judge by", False
        return effect, "", False

    def _held(self, found: tuple[Danger, ...], effect: Effect | None) -> tuple[str, ...]:
        reasons = [
            f"rule {each.rule!r}: {each.message}"
            for each in found
            if each.holds == "always" or (each.holds == "unjudged" and effect is None)
        ]
        if effect is not None and effect.newly_denied_ratio * 100 > self.settings.percent:
            share = f"{effect.newly_denied_ratio:.2%}".replace("%", " %")
            reasons.append(
                f"it would newly deny {share} of the requests, {effect.newly_denied} of {effect.requests},"
                f" and {self.settings.percent:g} % is the most that goes in unasked"
            )
        return tuple(reasons)

    def _releases(self, by: Signature, action: str) -> bool:
        if self.settings.mode == "off":
            return True
        if action == "rollback":
            return bool(by.reason.strip())
        return self.settings.mode == "reason" and is_confirmed(by)

    def _advice(self, action: str) -> str:
        if action == "rollback":
            return RECALL
        return CONFIRM if self.settings.mode == "reason" else PROPOSE


def is_confirmed(by: Signature) -> bool:
    """Whether the author has said that this is meant, and why."""
    return by.confirmed and bool(by.reason.strip())


def needs_confirmation(what: str, by: Signature) -> None:
    """For changes of other things than rules, such as a block of half the internet.

    Args:
        what: is dangerous, as a sentence without its full stop.

    Raises:
        GuardRefused: the author has not confirmed it and given a reason.
    """
    if not is_confirmed(by):
        preview = {"verdict": "refused", "why": [what], "advice": CONFIRM}
        raise GuardRefused(f"Nothing was changed: {what}. {_sentence(CONFIRM)}", preview)


def refusal(review: Review) -> GuardRefused:
    """The error that says why a change is held up, and what to do."""
    message = f"Nothing was changed: {'; '.join(review.held)}. {_sentence(review.advice)}"
    return GuardRefused(message, review.to_document())


def _read(before: RuleSet, after: RuleSet, action: str, cut: Fraction) -> Review:
    """What the rules alone show."""
    rules = touched(before, after)
    return Review(
        action=action,
        before={rule: _document(before, rule) for rule in rules},
        after={rule: _document(after, rule) for rule in rules},
        diff={rule: _differences(before, after, rule) for rule in rules},
        dangers=dangers(before, after, cut),
        effect=None,
        unjudged="",
        held=(),
    )


def _differences(before: RuleSet, after: RuleSet, rule: str) -> list[dict[str, Any]]:
    return differences_to_document(differences(_document(before, rule), _document(after, rule)))


def _document(rules: RuleSet, rule: str) -> Mapping[str, Any] | None:
    found = rules.by_id.get(rule)
    return None if found is None else found.to_document()


def _worth_watching(before: RuleSet, after: RuleSet, rules: Iterable[str], effect: Effect | None) -> bool:
    """Whether the traffic that was sampled knew the rules that may deny more than before."""
    if effect is None:
        return False
    tighter = [rule for rule in rules if may_deny_more(before.by_id.get(rule), after.by_id.get(rule))]
    return sum(effect.covered.get(rule, 0) for rule in tighter) >= ENOUGH


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
