"""The schema for editors refuses nothing that is a rule or a test, and knows every field."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given

from limen import RuleError
from limen.admin.strict_json import json_from_text
from limen.rules.case import Expected
from limen.rules.case_parse import FIELDS as TEST_FIELDS
from limen.rules.case_traffic import BY_NAME_FIELDS, REQUEST_FIELDS, STREAM_FIELDS
from limen.rules.document import read_document
from limen.rules.match import BUILDERS
from limen.rules.parse import FIELDS, rules_from_text
from tests.poison import GOOD, poison
from tests.rules.test_case import REQUEST, written
from tests.rules.test_parse import DOCUMENTS, EVERYTHING

SCHEMA: dict[str, Any] = json.loads((files("limen.rules") / "schema.json").read_text())
VALIDATOR = jsonschema_rs.validator_for(SCHEMA)
DEFINED = SCHEMA["$defs"]


def is_rule(document: Any) -> bool:
    try:
        rules_from_text(json.dumps({"rules": [document]}))
    except RuleError:
        return False
    return True


def test_every_field_is_there_and_no_other() -> None:
    request, by_name = (set(each["properties"]) for each in DEFINED["ask"]["oneOf"])
    special = DEFINED["rule"]["properties"]["cost"]["oneOf"][1]["properties"]["when"]["items"]
    assert set(DEFINED["rule"]["properties"]) == set(FIELDS)
    assert set(DEFINED["match"]["properties"]) == {"path", *BUILDERS}
    assert set(special["properties"]) == {"path", "cost", *BUILDERS}
    assert set(DEFINED["test"]["properties"]) == set(TEST_FIELDS) >= set(Expected._fields)
    assert (request, by_name) == (set(REQUEST_FIELDS), set(BY_NAME_FIELDS))
    assert set(DEFINED["stream"]["properties"]) == set(STREAM_FIELDS)


def test_rules_as_people_write_them_are_valid() -> None:
    document, _ = read_document(EVERYTHING, "rules.yaml")
    VALIDATOR.validate(document)
    for number, rule in enumerate(GOOD):
        VALIDATOR.validate({"rules": [{"id": f"r{number}", **rule}]})


@given(DOCUMENTS)
def test_nothing_that_is_a_rule_is_refused(document: Any) -> None:
    assert VALIDATOR.is_valid({"rules": [document]}) or not is_rule(document)


def test_nothing_of_what_is_nearly_no_rule_is_refused_either() -> None:
    taken = 0
    for text in poison(300, seed=3, large=False):
        try:
            document = {"id": "r", **json_from_text(text)}
        except (ValueError, TypeError):
            continue
        if is_rule(document):
            taken += 1
            VALIDATOR.validate({"rules": [document]})
    assert taken > 15


@pytest.mark.parametrize(
    "fields",
    [
        {"limits": "5/minute"},
        {"id": "Not An Id"},
        {"limit": 5},
        {"key_by": "client"},
        {"key_by": ["clients"]},
        {"match": {"paths": "/"}},
        {"match": {"path": "v1"}},
        {"match": {"plan": 5}},
        {"mode": "shadowed"},
        {"rollout": 101},
        {"cost": -1},
        {"cost": {"when": [{"path": "/"}]}},
        {"on_failure": "maybe"},
        {"lease": {"ttl": "1s"}},
        {"carry_over": "all"},
        {"tags": "auth"},
    ],
)
def test_what_is_plainly_wrong_is_marked(fields: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid({"rules": [{"id": "r", "limit": "5/minute"}]})
    assert not VALIDATOR.is_valid({"rules": [{"id": "r", "limit": "5/minute", **fields}]})


@pytest.mark.parametrize(
    ("fields", "valid"),
    [
        ([REQUEST, "outcome: allowed"], True),
        ([REQUEST, "traffic: {rate: 10/second, for: 1m}", "allowed: at most 100", "by: [search]"], True),
        (["traffic: [{request: {client: a, rule: login}, times: 3}]", "allowed: 3", "remaining: {login: 2}"], True),
        (["name: x", "at: 2026-03-29T01:30:00+01:00", REQUEST, "cost: {search: 1}"], True),
        ([REQUEST, "outcome: maybe"], False),
        (["request: {metod: GET}", "outcome: allowed"], False),
        (["outcome: allowed"], False),
        ([REQUEST, "traffic: {times: 0}", "allowed: 1"], False),
    ],
)
def test_tests_of_rules_are_described_too(fields: list[str], valid: bool) -> None:
    document, _ = read_document(written(*fields), "tests.yaml")
    assert VALIDATOR.is_valid(document) is valid


@pytest.mark.parametrize(
    ("document", "valid"),
    [
        ({"rules": []}, True),
        ({"tests": []}, True),
        ({"rules": "rules.yaml", "tests": []}, True),
        ({}, False),
        ([], False),
        ({"rules": [], "rule": []}, False),
        ({"rules": {}}, False),
    ],
)
def test_a_document_has_rules_and_tests_and_nothing_else(document: Any, valid: bool) -> None:
    assert VALIDATOR.is_valid(document) is valid
