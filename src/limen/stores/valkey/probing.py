"""Whether a server can decide, and is still heard, found out without a request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random

import hiredis

from limen.errors import StoreError
from limen.stores.valkey.endpoint import Endpoint
from limen.stores.valkey.link import Link, Reply
from limen.stores.valkey.replies import classify, store_error
from limen.stores.valkey.script import greeting
from limen.stores.valkey.waiting import look

__all__ = ["greet", "probed"]

log = logging.getLogger("limen.store")


async def probed(link: Link, question: bytes, where: Endpoint, patience_s: float) -> StoreError | None:
    """Why a server cannot decide; None when it can. It is asked twice: whether at all, then whether in time.

    In time means within the deadline of requests, which does not count the time that this process itself is busy.

    Args:
        question: something that the server refuses while it cannot decide.
        where: which server.
        patience_s: how long it may be silent.

    Raises:
        StoreError: it is silent, and should be connected anew.
    """
    trouble = _judged(await link.ask(question, patience_s, urgent=True), where)
    if trouble is not None:
        return trouble
    try:
        return _judged(await link.ask(question), where)
    except StoreError as late:
        return StoreError(f"{where} does not answer in time: {late}", late.kind, late.shard)


def greet(link: Link, where: Endpoint) -> None:
    """Ask what nobody else asks: whether the server is there, and whether an answer is still that to its question.
    One that got lost on the way would give everybody the answer to the question before, for ever."""
    word = b"%016x" % random.getrandbits(64)

    def answered(future: asyncio.Future[Reply]) -> None:
        if look(future) is None and isinstance(future.result(), bytes) and future.result() != word:
            log.error("%s answers other questions than it was asked; connecting anew", where)
            link.close()

    with contextlib.suppress(StoreError):
        link.ask(greeting(word), urgent=True).add_done_callback(answered)


def _judged(reply: Reply, where: Endpoint) -> StoreError | None:
    """Why a server that answers so cannot decide, if it cannot. One that refuses only the question can."""
    if not isinstance(reply, hiredis.ReplyError):
        return None
    refusal = classify(str(reply))
    trouble = store_error(refusal, str(where), str(where.address))
    return trouble if refusal.unusable or refusal.stale else None
