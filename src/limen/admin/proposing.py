"""Changes for which a second person is needed: proposed by one, put in force or rejected by another."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from limen.admin.approving import Approving, name_of
from limen.admin.editing import Edits
from limen.admin.guard import Reviewing
from limen.admin.precondition import Precondition
from limen.admin.proposals import OPEN, REJECTED, Proposal, add, decide, renew
from limen.admin.records import UNSIGNED, Signature
from limen.errors import Conflict, GuardRefused, Problem, RuleError, UsageError

if TYPE_CHECKING:
    from limen.admin.repository import Repository
    from limen.admin.service import AdminService

__all__ = ["Proposing", "edits_from", "proposal_body"]


class Proposing:
    """What can be done with proposals.

    Args:
        repository: where they are kept.
        service: puts them in force.
        guard: says what they do.
        percent: points by which a prediction may grow between proposal and approval.
        now: Unix time in seconds.

    Attributes:
        repository, service: the same.

    Every method raises `RulesUnavailable` while the database does not answer.
    """

    def __init__(
        self,
        repository: Repository,
        service: AdminService,
        guard: Reviewing,
        percent: float = 1.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.repository = repository
        self.service = service
        self._guard = guard
        self._percent = percent
        self._now = now

    async def recent(self) -> tuple[Proposal, ...]:
        """The newest first, those that are decided too."""
        return await self.repository.proposals.recent()

    def shown(self, proposal: Proposal) -> dict[str, Any]:
        """A proposal as JSON, as it stands now."""
        return proposal_body(proposal, self._now())

    async def find(self, number: int) -> Proposal | None:
        return await self.repository.proposals.find(number)

    async def propose(
        self,
        edits: Edits,
        by: Signature = UNSIGNED,
        *,
        action: str = "put",
        conditions: Mapping[str, Precondition] | None = None,
    ) -> Proposal:
        """Ask for a change. It is checked, and not put in force.

        Raises:
            RuleError: a document, or the set that it would be part of, is not valid.
            Conflict: a condition does not hold.
            UsageError: there is no reason.
        """
        if not by.reason.strip():
            raise UsageError("a proposal needs a reason, for whoever is to approve it: ?reason=… or --reason …")
        there = {rule.id: rule.version for rule in (await self.service.rules())[1]}
        base = {rule: there.get(rule) for rule in edits}
        dry = await self.service.edit(
            edits, by, action=action, conditions=conditions or {}, dry_run=True, guard=self._guard
        )
        preview = dry.review.to_document() if dry.review is not None else {}
        async with self.repository.change(by=by, counter=None) as change:
            proposal = await add(change, action, edits, base, preview)
            change.record("proposal.open", name_of(proposal), {"rules": sorted(edits), "action": action})
        return proposal

    async def propose_all(
        self, documents: Mapping[str, Mapping[str, Any]], prune: bool, by: Signature
    ) -> Proposal | None:
        """Propose what applying these documents would change, as `AdminService.apply` does; None: it is so already."""
        done = (await self.service.apply(documents, prune, dry_run=True, by=by)).done
        edits = {rule: documents.get(rule) for rule in done}
        return await self.propose(edits, by, action="apply") if edits else None

    async def approve(self, number: int, by: Signature) -> Proposal | None:
        """Put one in force; None when there is none of that number.

        Raises:
            Conflict: it is decided or too old, its author is the one who approves, or the rules changed meanwhile.
            GuardRefused: it would do more harm than its author was told. The preview is renewed.
        """
        proposal = await self.repository.proposals.find(number)
        if proposal is None:
            return None
        self._check_open(proposal)
        if proposal.author == by.author:
            raise Conflict(f"{by.author!r} has proposed this; somebody else has to approve it", None)
        conditions = {rule: _as_proposed(version) for rule, version in proposal.base.items()}
        signed = by._replace(confirmed=True, reason=_reason(proposal, by))
        guard = Approving(self._guard, proposal, self._percent)
        try:
            await self.service.edit(proposal.edits, signed, action=proposal.action, conditions=conditions, guard=guard)
        except GuardRefused as refused:
            async with self.repository.change(by=by, counter=None) as change:
                await renew(change, number, refused.preview)
                change.record("proposal.renew", name_of(proposal), {"rules": sorted(proposal.edits)})
            raise
        return await self.repository.proposals.find(number)

    async def reject(self, number: int, by: Signature) -> Proposal | None:
        """Decide against one, or withdraw one's own; None when there is none of that number.

        Raises:
            Conflict: it is decided already.
        """
        proposal = await self.repository.proposals.find(number)
        if proposal is None:
            return None
        async with self.repository.change(by=by, counter=None) as change:
            if not await decide(change, number, REJECTED):
                raise Conflict(f"proposal {number} is {proposal.state} already", None)
            change.record("proposal.reject", name_of(proposal), {"author": proposal.author})
        return await self.repository.proposals.find(number)

    def _check_open(self, proposal: Proposal) -> None:
        if proposal.state != OPEN:
            raise Conflict(f"proposal {proposal.id} is {proposal.state} already", None)
        if self._now() >= proposal.expires:
            raise Conflict(f"proposal {proposal.id} is older than a day; propose it again", None)


def edits_from(document: object) -> dict[str, Mapping[str, Any] | None]:
    """The edits of `{"rules": {"search": {…}, "old": null}}`.

    Raises:
        RuleError: it is not that.
    """
    rules = document.get("rules") if isinstance(document, Mapping) else None
    if not isinstance(rules, Mapping) or not rules or set(cast("Mapping[str, Any]", document)) != {"rules"}:
        example = '{"rules": {"search": {"limit": "100/minute"}, "old": null}}'
        raise RuleError([Problem(f"a proposal is an object such as {example}; null deletes a rule")])
    return dict(rules)


def proposal_body(proposal: Proposal, now: float) -> dict[str, Any]:
    """A proposal as JSON."""
    expired = proposal.state == OPEN and now >= proposal.expires
    return {**proposal._asdict(), "state": "expired" if expired else proposal.state}


def _reason(proposal: Proposal, by: Signature) -> str:
    said = f"; {by.reason}" if by.reason.strip() else ""
    return f"{proposal.reason} (proposal {proposal.id} of {proposal.author}{said})"


def _as_proposed(version: int | None) -> Precondition:
    return Precondition(none_of="*") if version is None else Precondition(any_of={version})
