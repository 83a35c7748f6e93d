"""Two promises hold in every case: nothing raises, and no key lives for ever."""

import pytest


@pytest.fixture(autouse=True)
def _clean_keys(clean_keys: None) -> None:
    """See `clean_keys`."""
