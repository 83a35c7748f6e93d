"""The check API: a question, a decision, as JSON over HTTP. A plain ASGI app.

A denial is a decision like any other and comes with 200: the caller asked, and this is the answer. 503 is for
what could not be decided under a rule that must hold. In a batch that is said by the item's own `status`: the others
were decided, and each was decided for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from limen.adapters.asgi_types import Receive, Scope, Send, live, refuse, send_reply
from limen.adapters.check_question import Check, batch_of, look, question, wanted
from limen.adapters.http import denial
from limen.adapters.identity import BadIdentity, Identify, guarded, nobody
from limen.adapters.json_body import ClientGone, Refused, parse_json, read_body
from limen.adapters.problem import Reply, json_reply, problem
from limen.core.decision import Decision
from limen.engine.explain import Explanation
from limen.engine.plan import plan_check
from limen.errors import UsageError
from limen.rules.request import Request
from limen.rules.ruleset import RuleSet

__all__ = ["CheckApi"]

MAX_BODY = 64 * 1024
MAX_BATCH_BODY = 1024 * 1024
AT_ONCE = 64
"""Checks of one batch that are in flight together: what a store answers well within the deadline of a decision. More
would make no batch faster, and 1000 at once are late, for others too."""

Handler = Callable[[Scope, Receive], Awaitable[Reply]]
Asked = TypeVar("Asked", bound=Check | Request)


class CheckLimiter(Protocol):
    """What the check API needs of an `AsyncLimiter`."""

    @property
    def ruleset(self) -> RuleSet: ...
    async def check(self, client: str, rule: str, cost: int = 1) -> Decision: ...
    async def check_request(self, request: Request) -> Decision: ...
    async def peek(self, client: str, rule: str, cost: int = 1) -> Decision: ...
    async def explain(self, request: Request) -> Explanation: ...


class CheckApi:
    """An ASGI app with `POST /v1/check`, `POST /v1/check/batch`, `GET /v1/state`, `GET /v1/explain`, `/healthz`,
    `/readyz`, `/metrics`.

    Args:
        limiter: an `AsyncLimiter`; whoever made it starts and closes it.
        ready: whether this process should get traffic, and details for people.
        metrics: the body and content type of `/metrics`; without it there is no such path.
        body_timeout_s: the longest that a request body may take to arrive; then 408.
        identify: gives the identity behind the API key that a question of `/v1/explain` carries, as a gateway would.
    """

    def __init__(
        self,
        limiter: CheckLimiter,
        *,
        ready: Callable[[], tuple[bool, Mapping[str, Any]]] = lambda: (True, {}),
        metrics: Callable[[], tuple[bytes, str]] | None = None,
        body_timeout_s: float = 10.0,
        identify: Identify = nobody,
    ) -> None:
        self.limiter = limiter
        self._ready = ready
        self._body_timeout_s = body_timeout_s
        self._identify = guarded(identify)
        self._routes: dict[str, tuple[str, Handler]] = {
            "/v1/check": ("POST", self._check),
            "/v1/check/batch": ("POST", self._batch),
            "/v1/state": ("GET", self._state),
            "/v1/explain": ("GET", self._explain),
            "/healthz": ("GET", self._health),
            "/readyz": ("GET", self._readiness),
        }
        if metrics is not None:
            self._metrics = metrics
            self._routes["/metrics"] = ("GET", self._show_metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send, _nothing, _nothing)
        elif scope["type"] == "websocket":
            await refuse(scope, receive, send, problem(404, "There is no WebSocket here."))
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            reply = await self._answer(scope, receive)
        except Refused as refusal:
            reply = refusal.reply
        except ClientGone:
            return
        await send_reply(send, reply)

    async def _answer(self, scope: Scope, receive: Receive) -> Reply:
        method, handler = self._routes.get(scope["path"], (None, None))
        if method is None or handler is None:
            return problem(404, f"There is no such path; there are {', '.join(self._routes)}.")
        asked = scope["method"]
        if asked != method and not (asked == "HEAD" and method == "GET"):
            allowed = "GET, HEAD" if method == "GET" else method
            return problem(405, f"This path is for {allowed}.", headers=[("allow", allowed)])
        return await handler(scope, receive)

    async def _check(self, scope: Scope, receive: Receive) -> Reply:
        body = await read_body(scope, receive, MAX_BODY, self._body_timeout_s)
        return shown(await self._decide(self._possible(question(parse_json(body)))))

    async def _batch(self, scope: Scope, receive: Receive) -> Reply:
        body = await read_body(scope, receive, MAX_BATCH_BODY, self._body_timeout_s)
        asked = [self._item(*each) for each in enumerate(batch_of(parse_json(body)))]
        decisions: list[Decision] = []
        for start in range(0, len(asked), AT_ONCE):
            decisions += await self._decide_each(asked[start : start + AT_ONCE])
        return json_reply(200, [decision.to_json() for decision in decisions])

    async def _state(self, scope: Scope, receive: Receive) -> Reply:
        asked = self._possible(look(scope["query_string"]))
        return shown(await self.limiter.peek(asked.client, asked.rule, asked.cost))

    async def _explain(self, scope: Scope, receive: Receive) -> Reply:
        request, derived = self._identified(wanted(scope["query_string"]), scope)
        found = (await self.limiter.explain(request)).to_json()
        if derived:
            found["client"]["from"] = "api_key"
        return json_reply(200, found)

    def _identified(self, request: Request, scope: Scope) -> tuple[Request, bool]:
        """The request of whoever's API key came with the question, if that names no client; whether it is so."""
        if request.client is not None:
            return request, False
        identity = self._identify(scope)
        if isinstance(identity, BadIdentity):
            raise Refused(400, identity.detail)
        if identity.client is None:
            return request, False
        plan, user = request.plan or identity.plan, request.user or identity.user
        return request._replace(client=identity.client, plan=plan, user=user), True

    def _item(self, index: int, document: object) -> Check | Request:
        """What an item of a batch asks."""
        try:
            return self._possible(question(document))
        except Refused as refusal:
            raise Refused(422, f"Item {index}: {refusal.detail} Nothing was spent.", index=index) from refusal

    def _possible(self, asked: Asked) -> Asked:
        """What was asked, when the rules can answer it.

        Raises:
            Refused: 404, no such rule; 422, the rule needs more than the name of a client.
        """
        if isinstance(asked, Check):
            if asked.rule not in self.limiter.ruleset.by_id:
                raise Refused(404, "There is no rule of that id.")
            try:
                plan_check(self.limiter.ruleset, *asked)
            except UsageError as error:
                raise Refused(422, f"{error}.") from error
        return asked

    async def _decide(self, asked: Check | Request) -> Decision:
        if isinstance(asked, Request):
            return await self.limiter.check_request(asked)
        return await self.limiter.check(asked.client, asked.rule, asked.cost)

    async def _decide_each(self, asked: Sequence[Check | Request]) -> list[Decision]:
        try:
            return await asyncio.gather(*map(self._decide, asked))
        except UsageError as error:
            detail = "The rules changed while the batch was being decided; some of it may be spent."
            raise Refused(409, detail) from error

    async def _health(self, scope: Scope, receive: Receive) -> Reply:
        return json_reply(200, {"status": "ok"})

    async def _readiness(self, scope: Scope, receive: Receive) -> Reply:
        ready, details = self._ready()
        return json_reply(200 if ready else 503, {"status": "ready" if ready else "not ready", **details})

    async def _show_metrics(self, scope: Scope, receive: Receive) -> Reply:
        body, content_type = self._metrics()
        return Reply(200, [("content-type", content_type), ("content-length", str(len(body)))], body)


def shown(decision: Decision) -> Reply:
    """The response to a single check."""
    if _is_undecided(decision):
        return denial(decision, ())
    return json_reply(200, decision.to_json())


def _is_undecided(decision: Decision) -> bool:
    return not decision.allowed and decision.reason == "store_unavailable"


async def _nothing() -> None:
    """There is nothing to start or stop: the limiter belongs to whoever made it."""
