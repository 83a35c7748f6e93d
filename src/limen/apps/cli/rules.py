"""Rules from a shell: read and written in the rules database, followed by every gateway at its next look."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from cyclopts import App

from limen.apps.cli.bounds import Listing, bound_as_comments, bound_as_json
from limen.apps.cli.options import DEFAULT_RULES_DB, AsJson, Whole

if TYPE_CHECKING:
    from limen.admin.repository import Repository
    from limen.admin.service import AdminService

__all__ = ["rules", "with_repository", "with_service"]

T = TypeVar("T")

rules = App(name="rules", help="Read and change the rules.")


@rules.command(name="list")
def list_rules(*, rules_db: str = DEFAULT_RULES_DB, gateways: Whole = 1, as_json: AsJson = False) -> None:
    """List the rules, and how far beyond its limit each can go.

    Args:
        rules_db: URL of the rules database.
        gateways: How many processes decide at least; the bound depends on it.
        as_json: Print JSON.
    """
    found = _listing(rules_db, gateways)
    if as_json:
        bounds = {rule: bound_as_json(bound, found.gateways) for rule, bound in found.bounds.items()}
        print(json.dumps({"revision": found.revision, "rules": found.documents, "bounds": bounds}))
        return
    for document in found.documents:
        if "problems" in document:
            print(f"{document['id']}  {'; '.join(document['problems'])}")
            continue
        limit = document.get("limit", f"{document.get('capacity')} burst, {document.get('refill_per_sec')}/second")
        who = ", ".join(document.get("key_by", ["client"])) or "everybody together"
        bound = found.bounds.get(document["id"])
        over = "" if bound is None else f"  over by at most {bound.ratio:.3g} of it"
        tried = f"  tries {document['candidate']}" if document.get("candidate") else ""
        print(f"{document['id']}  {limit}  by {who}{over}{tried}")


@rules.command
def show(rule: str, /, *, rules_db: str = DEFAULT_RULES_DB, gateways: Whole = 1, as_json: AsJson = False) -> int:
    """Show one rule as it is written, and how far beyond its limit it can go.

    Args:
        rule: Id of the rule.
        rules_db: URL of the rules database.
        gateways: How many processes decide at least; the bound depends on it.
        as_json: Print JSON.
    """
    found = _listing(rules_db, gateways)
    for document in found.documents:
        if document["id"] == rule:
            bound = found.bounds.get(rule)
            if as_json:
                print(json.dumps({**document, "bound": bound_as_json(bound, found.gateways)}))
            else:
                print(_yaml([document]) + bound_as_comments(bound, found.gateways))
            return 0
    raise _unknown(rule)


@rules.command
def export(*, rules_db: str = DEFAULT_RULES_DB, as_json: AsJson = False) -> None:
    """Print all rules as a file that `apply` reads.

    Args:
        rules_db: URL of the rules database.
        as_json: Print JSON.
    """
    _, documents = _documents(rules_db)
    print(json.dumps({"rules": documents}) if as_json else _yaml(documents), end="\n" if as_json else "")


def _listing(rules_db: str, gateways: int) -> Listing:
    return with_service(rules_db, lambda service: Listing.of(service, gateways))


def _documents(rules_db: str) -> tuple[int, list[dict[str, Any]]]:
    from limen.admin.stored_rules import document_of

    revision, stored = with_service(rules_db, lambda service: service.rules())
    return revision, [document_of(rule) for rule in stored]


def with_service(rules_db: str, ask: Callable[[AdminService], Awaitable[T]]) -> T:
    """What the rules database answers.

    Raises:
        RulesUnavailable: it does not.
    """
    from limen.admin.service import AdminService

    return with_repository(rules_db, lambda repository: ask(AdminService(repository)))


def with_repository(rules_db: str, ask: Callable[[Repository], Awaitable[T]]) -> T:
    """The same, for what is no matter of the admin service.

    Raises:
        RulesUnavailable: it does not answer.
    """
    import asyncio

    from limen.admin.repository import Repository

    async def answer() -> T:
        async with Repository(rules_db) as repository:
            return await ask(repository)

    return asyncio.run(answer())


def _yaml(documents: list[dict[str, Any]]) -> str:
    import yaml

    return yaml.safe_dump({"rules": documents}, sort_keys=False, allow_unicode=True)


def _unknown(rule: str) -> Exception:
    from limen.errors import UsageError

    return UsageError(f"there is no rule {rule!r}; limen rules list shows what there is")
