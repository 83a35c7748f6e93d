"""The page of public names: what a user may import is what is written there, and nothing slips in or out unseen."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

import limen
import limen.errors
import limen.testing

PUBLIC = {
    limen: [
        "AsyncLimiter", "Block", "Decision", "Flag", "LimenError", "Limiter", "Override", "RateLimited", "Request",
        "Rule", "RuleError", "RuleSet", "Standing", "StoreError", "UsageError",
    ],
    limen.testing: [
        "STORE_PROMISES", "FaultProxy", "IntervalChecker", "ManualClock", "Overshoot", "store_conformance",
    ],
    limen.errors: [
        "Conflict", "GuardRefused", "LimenError", "MissingExtra", "Problem", "RateLimited", "RuleError",
        "RulesUnavailable", "SettingsError", "StoreError", "Unavailable", "UsageError",
    ],
}  # fmt: skip
MODULES = pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)


@MODULES
def test_its_names_are_these(module: ModuleType) -> None:
    assert list(module.__all__) == PUBLIC[module]


@MODULES
def test_every_class_that_is_defined_or_shown_there_is_on_the_page(module: ModuleType) -> None:
    inside = {name for name, value in inspect.getmembers(module, inspect.isclass) if value.__module__ == "limen.errors"}
    shown = {name for name in dir(module) if not name.startswith("_") and not inspect.ismodule(getattr(module, name))}
    assert (inside if module is limen.errors else shown) == set(PUBLIC[module])


@MODULES
def test_a_star_import_brings_them(module: ModuleType) -> None:
    names: dict[str, object] = {}
    exec(f"from {module.__name__} import *", names)
    assert set(names) - {"__builtins__"} == set(PUBLIC[module])
