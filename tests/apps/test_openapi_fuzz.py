"""The admin API against its own OpenAPI document: what fits it, and what does not, gets an answer that it names.

Short in the suite; with LIMEN_LONG=1 each operation gets 160 requests from each role.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from limen.admin.callers import ROLES
from limen.apps.settings import Shared
from tests.apps.admin_house import open_house

IS_LONG = bool(os.environ.get("LIMEN_LONG"))
few = settings(max_examples=40 if IS_LONG else 1, deadline=None, database=None, suppress_health_check=list(HealthCheck))
THERE = {"rule_id": "search", "client": "acme", "plan": "free"}
"""Names of things that are there, so that not every answer is 404."""
WAYS: list[tuple[GenerationMode, dict[str, str] | None]] = [
    (GenerationMode.POSITIVE, THERE), (GenerationMode.NEGATIVE, None),
    (GenerationMode.POSITIVE, None), (GenerationMode.NEGATIVE, THERE),
]  # fmt: skip
"""Short of time, each operation is asked in one of the first two."""
CHECKS: list[Any] = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance
]  # fmt: skip


@pytest.mark.timeout(7200 if IS_LONG else 120)
def test_every_answer_is_one_that_the_document_names_and_none_is_an_error_of_ours(tmp_path: Path) -> None:
    """Each request is sent by a viewer, by an editor and by an approver, in this order."""
    shared = Shared(store="memory://", rules_db=f"sqlite:///{tmp_path}/rules.db", state=tmp_path)
    seen: dict[str, Counter[int]] = {role: Counter() for role in ROLES}
    wrong: list[str] = []
    with asyncio.Runner() as runner:
        opened = AsyncExitStack()
        house = runner.run(opened.enter_async_context(open_house(shared)))
        client = runner.run(opened.enter_async_context(house.client()))
        document = runner.run(client.get("/openapi.json")).json()

        def ask(case: Any) -> None:
            for role, token in house.tokens.items():
                answer = runner.run(send(client, case, token))
                seen[role][answer.status_code] += 1
                case.validate_response(answer, checks=CHECKS)

        try:
            for number, found in enumerate(schemathesis.openapi.from_dict(document).get_all_operations()):
                for mode, known in WAYS if IS_LONG else WAYS[number % 2 :][:1]:
                    try:
                        few(given(case=found.ok().as_strategy(mode, path_parameters=known))(ask))()
                    except FailureGroup as failures:
                        wrong += [f"{failure}\n{failures}" for failure in failures.exceptions]
        finally:
            runner.run(opened.aclose())
    assert wrong == []
    assert all(answers.total() > 40 and 401 not in answers for answers in seen.values())
    assert [403 in seen[role] for role in ROLES] == [True, True, False]
    if IS_LONG:
        print(seen)  # noqa: T201


async def send(client: httpx2.AsyncClient, case: Any, token: str) -> httpx2.Response:
    """A generated request, as far as HTTP can carry it."""
    given = case.as_transport_kwargs(base_url="http://127.0.0.1:8090")
    try:
        request = client.build_request(
            given["method"], given["url"], params=given.get("params"), headers=given.get("headers"),
            content=given.get("data"), json=given.get("json"),
        )  # fmt: skip
    except (ValueError, TypeError, httpx2.InvalidURL):
        assume(False)
    request.headers["Authorization"] = f"Bearer {token}"
    return await client.send(request)
