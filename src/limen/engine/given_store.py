"""A store that the caller made: it must be of the kind that the limiter calls."""

from __future__ import annotations

from inspect import iscoroutinefunction

from limen.errors import UsageError
from limen.stores.base import AsyncStore, Store

__all__ = ["for_coroutines", "for_threads"]


def for_coroutines(store: AsyncStore) -> AsyncStore:
    """
    Raises:
        UsageError: not a store, or one that blocks.
    """
    if not iscoroutinefunction(getattr(store, "start", None)):
        wanted = "a URL or a store for coroutines (limen.stores.base.AsyncStore)"
        raise UsageError(f"the store of an AsyncLimiter is {wanted}, not {store!r}")
    return store


def for_threads(store: Store) -> Store:
    """
    Raises:
        UsageError: not a store, or one for coroutines.
    """
    start = getattr(store, "start", None)
    if not callable(start) or iscoroutinefunction(start):
        wanted = "a URL or a store for threads (limen.stores.base.Store)"
        raise UsageError(f"the store of a Limiter is {wanted}, not {store!r}")
    return store
