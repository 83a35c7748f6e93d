import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.admin.strict_json import MAX_BYTES, MAX_DEPTH, json_from_text
from limen.errors import UsageError

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)

BAD = [
    ("", "not readable"),
    ("{", "not readable"),
    ("{'a': 1}", "not readable"),
    ("[1,]", "not readable"),
    (b"\xff\xfe\x00", "not readable"),
    ('{"a": NaN}', "NaN is not a number"),
    ("-Infinity", "-Infinity is not a number"),
    ("1e999", "too large a number"),
    ("-1e999", "too large a number"),
    ("1" * 5000, "not readable"),
    ('{"a": 1, "a": 2}', "'a' is there twice"),
    ('{"b": {"a": 1, "\\u0061": 2}}', "'a' is there twice"),
    ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "deeper than 20"),
    ('{"a":' * 30 + "1" + "}" * 30, "deeper than 20"),
    ("[" * 400_000, "deeper than 20"),
    (b'{"a": "\xed\xa0\x80"}', "lone surrogate|not readable"),
    ('"\\ud800"', "lone surrogate"),
    ('{"\\ud800": 1}', "lone surrogate"),
    ('"' + "x" * MAX_BYTES + '"', "larger than 1 MiB"),
    (None, "must be JSON text"),
    (7, "must be JSON text"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=range(len(BAD)))
def test_what_is_not_plain_json_is_refused(text: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        json_from_text(text)


@given(VALUES)
def test_plain_json_is_read_as_the_standard_library_reads_it(value: object) -> None:
    text = json.dumps(value)
    assert json_from_text(text) == json_from_text(text.encode()) == json.loads(text)


@given(st.text() | st.binary())
def test_no_text_does_anything_but_be_read_or_refused(text: str | bytes) -> None:
    try:
        json_from_text(text)
    except UsageError:
        return


def test_twenty_levels_are_allowed() -> None:
    assert json_from_text("[" * MAX_DEPTH + "]" * MAX_DEPTH)
