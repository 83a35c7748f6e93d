"""How long something lasts, as people write it."""

from __future__ import annotations

import pytest

from limen.errors import UsageError
from limen.rules.duration import duration_s


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90),
        ("100ms", 0.1),
        ("15m", 900),
        ("1h", 3600),
        ("1d", 86_400),
        ("2w", 1_209_600),
        ("1.5h", 5400),
        (" 10 m ", 600),
        ("45", 45),
        (45, 45),
        (0.25, 0.25),
    ],
)
def test_a_length_of_time_is_so_many_seconds(written: object, seconds: float) -> None:
    assert duration_s(written) == seconds


@pytest.mark.parametrize(
    "written", ["", "h", "1H30", "-1h", "1 hour", "1e3s", "١h", "nan", "9" * 30, None, True, [], {}]
)
def test_what_is_none_is_told_how_to_write_it(written: object) -> None:
    with pytest.raises(UsageError, match="90s, 15m, 1h, 1d"):
        duration_s(written)
