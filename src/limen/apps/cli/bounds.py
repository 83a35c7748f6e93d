"""How far beyond its limit each rule can go, for `limen rules`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limen.admin.records import StoredRule
    from limen.admin.service import AdminService
    from limen.core.bound import Bound

__all__ = ["Listing", "bound_as_comments", "bound_as_json"]


class Listing:
    """Rules as they are written, with their bounds.

    Attributes:
        revision: of the rules.
        documents: the rules as they are written; of one that cannot be read `id` and `problems`.
        bounds: by id; None for a rule that holds nobody to a limit. Those that cannot be read are not there.
        gateways: N, that the bounds were made with.
    """

    def __init__(self, revision: int, stored: tuple[StoredRule, ...], gateways: int) -> None:
        self.revision = revision
        self.documents: list[dict[str, Any]] = [_document(rule) for rule in stored]
        self.gateways = gateways
        self.bounds: dict[str, Bound | None] = dict(filter(None, (_bound(rule, gateways) for rule in stored)))

    @classmethod
    async def of(cls, service: AdminService, gateways: int) -> Listing:
        """What is in the database. N is the most that ran within ten minutes, and no less than what is given."""
        revision, stored = await service.rules()
        return cls(revision, stored, max(gateways, (await service.fleet()).most))


def bound_as_json(bound: Bound | None, gateways: int) -> dict[str, Any] | None:
    """The bound, and what it is made of."""
    from limen.rules.bound import bound_to_document

    return None if bound is None else bound_to_document(bound, gateways)


def bound_as_comments(bound: Bound | None, gateways: int) -> str:
    """The same as lines of YAML that say nothing to a machine, so that what is printed is a file of rules still."""
    from limen.rules.bound import bound_to_lines

    lines = ["it holds nobody to a limit"] if bound is None else bound_to_lines(bound, gateways)
    return "\n".join(f"# {line}" for line in lines)


def _document(stored: StoredRule) -> dict[str, Any]:
    from limen.admin.stored_rules import document_of
    from limen.errors import RuleError

    try:
        return document_of(stored)
    except RuleError as error:
        return {"id": stored.id, "problems": [problem.message for problem in error.problems]}


def _bound(stored: StoredRule, gateways: int) -> tuple[str, Bound | None] | None:
    from limen.admin.stored_rules import rule_of
    from limen.errors import RuleError
    from limen.rules.bound import bound_of

    try:
        return stored.id, bound_of(rule_of(stored), gateways)
    except RuleError:
        return None
