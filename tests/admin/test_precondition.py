import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.admin.precondition import Precondition, precondition
from limen.errors import Conflict

ROWS = [
    # If-Match, If-None-Match, version that is there, does it hold?
    (None, None, None, True),
    (None, None, 3, True),
    ('"3"', None, 3, True),
    ('"3"', None, 4, False),
    ('"3"', None, None, False),
    ('"2", "3"', None, 3, True),
    ('"2" ,"4"', None, 3, False),
    ("3", None, 3, True),
    ('W/"3"', None, 3, False),
    ("*", None, 3, True),
    (" * ", None, None, False),
    ("", None, 3, False),
    ('"abc"', None, 3, False),
    ('"-3"', None, -3, False),
    ('"' + "9" * 5000 + '"', None, 3, False),
    (None, "*", None, True),
    (None, "*", 3, False),
    (None, '"3"', 3, False),
    (None, 'W/"3"', 3, False),
    (None, '"3"', 4, True),
    (None, '"3"', None, True),
    ('"3"', '"3"', 3, False),
]


@pytest.mark.parametrize(("if_match", "if_none_match", "current", "holds"), ROWS)
def test_header_fields_mean_what_http_says(
    if_match: str | None, if_none_match: str | None, current: int | None, holds: bool
) -> None:
    assert precondition(if_match, if_none_match).holds(current) is holds


def test_a_condition_that_does_not_hold_is_a_conflict_with_the_version_that_is_there() -> None:
    with pytest.raises(Conflict, match="rule 'a' is at version 4 now") as caught:
        Precondition(any_of={3}).check("rule 'a'", 4)
    assert caught.value.current == 4
    with pytest.raises(Conflict, match="is not there"):
        Precondition(any_of="*").check("rule 'a'", None)
    Precondition(any_of={3}).check("rule 'a'", 3)


@given(st.text(), st.integers(0, 9) | st.none())
def test_any_header_text_can_be_read(text: str, current: int | None) -> None:
    assert precondition(text, text).holds(current) in (True, False)
