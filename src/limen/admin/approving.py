"""The guard as it is for a change that one person has proposed and another approves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limen.admin.guard import Reviewing, refusal
from limen.admin.proposals import APPROVED, Proposal, decide
from limen.admin.records import Signature
from limen.admin.review import Review
from limen.admin.watching import tolerated
from limen.errors import Conflict

if TYPE_CHECKING:
    from limen.admin.change import Change
    from limen.rules.effect import Effect
    from limen.rules.ruleset import RuleSet

__all__ = ["Approving", "name_of"]

GROWN = "it is predicted to do more harm now than when it was proposed: look at the new preview and approve it again"


class Approving:
    """A guard that knows that somebody proposed this, and somebody else wants it too."""

    def __init__(self, guard: Reviewing, proposal: Proposal, percent: float) -> None:
        self._guard = guard
        self._proposal = proposal
        self._percent = percent

    async def look(self, before: RuleSet, after: RuleSet, by: Signature, *, action: str = "put") -> Review:
        return await self._guard.look(before, after, by, action=action)

    async def review(self, before: RuleSet, after: RuleSet, by: Signature, *, action: str = "put") -> Review:
        found = await self.look(before, after, by, action=action)
        if found.held and _ratio(found.effect) > tolerated(self._predicted, self._percent):
            raise refusal(found._replace(released=False, held=(*found.held, GROWN), advice="approve it again"))
        return found._replace(released=bool(found.held))

    async def enter(self, change: Change, review: Review) -> None:
        if not await decide(change, self._proposal.id, APPROVED, change.revision):
            raise Conflict(f"proposal {self._proposal.id} was decided meanwhile", None)
        change.record("proposal.approve", name_of(self._proposal), {"author": self._proposal.author})
        await self._guard.enter(change, review)

    @property
    def _predicted(self) -> float:
        effect = self._proposal.preview.get("effect") or {}
        return float(effect.get("newly_denied_ratio", 0.0))


def name_of(proposal: Proposal) -> str:
    """What the audit log calls it."""
    return f"proposal:{proposal.id}"


def _ratio(effect: Effect | None) -> float:
    return 0.0 if effect is None else effect.newly_denied_ratio
