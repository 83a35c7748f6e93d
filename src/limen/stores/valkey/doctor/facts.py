"""What was found out about one server, before anybody judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Facts"]

Text = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one server said about itself.

    Attributes:
        server: where it is, without a password.
        hello: its answer to HELLO: server, version, mode, role.
        info: its answer to INFO; empty when the user may not ask.
        config: its answer to CONFIG GET; empty when the user may not ask.
        refused: for each command that it refuses to run at all, what it says.
        undecided: why no decision could be made; empty when one was.
        answers_ms: the median time of a question and its answer.
        ahead_s: how far its clock is ahead of this machine's.
    """

    server: str
    hello: Text = field(default_factory=dict)
    info: Text = field(default_factory=dict)
    config: Text = field(default_factory=dict)
    refused: Text = field(default_factory=dict)
    undecided: str = ""
    answers_ms: float = 0.0
    ahead_s: float = 0.0

    def count(self, name: str) -> int:
        """A number that INFO or CONFIG GET gives; 0 when it is not there."""
        return int(self.config.get(name) or self.info.get(name) or 0)
