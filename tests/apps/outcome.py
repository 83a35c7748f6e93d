"""What came of a command that was run in this process."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

__all__ = ["Outcome"]


class Outcome(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)
