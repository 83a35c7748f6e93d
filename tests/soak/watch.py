"""What a long run is watched for: limits, memory, files, keys that stay for ever, and what is logged."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from limen.rules.model import Rule
from limen.stores.valkey.marks import MARK_HEAD
from limen.stores.valkey.names import Names
from limen.stores.valkey.script import GATEWAYS
from limen.testing import IntervalChecker
from tests.faults.fleet.gateway import Gateway
from tests.faults.fleet.record import records
from tests.faults.fleet.watch import now_us
from tests.topologies.servers import Server

__all__ = ["Ledger", "Sample", "Usage", "keys_for_ever", "samples_of", "usage"]

SETTLE_US = 60_000_000
"""Nobody is answered later than this after the question, not even by a gateway that was frozen meanwhile."""
NOT_BUCKETS = {Names(None).tag(GATEWAYS)}


class Sample(NamedTuple):
    """A process at one moment."""

    process: str
    second: float
    """Of the run."""
    rss_kb: int
    files: int


class Usage(NamedTuple):
    """How a process that lived long enough to tell has grown."""

    process: str
    seconds: float
    growth_per_hour: float
    """Of its memory, as a part of it: the slope of a straight line through all samples."""
    more_files: int
    """From the first sample to the last."""


class Ledger:
    """All that was let through, by rule, and what else gateways tell.

    Args:
        rules: arguments of `Rule`.
    """

    def __init__(self, rules: list[dict[str, Any]]) -> None:
        self.rules = [Rule(**rule) for rule in rules]
        self.checkers = [IntervalChecker(rule) for rule in self.rules]
        self._since = [IntervalChecker(rule) for rule in self.rules]
        self.decided = self.degraded = self.refused_open = 0
        self.unhandled: list[str] = []
        self.samples: list[Sample] = []

    def take(self, gateway: Gateway, second: float) -> None:
        """Read what a gateway has written down since the last time, and throw it away."""
        told = gateway.do("report")
        file = Path(told["decisions"])
        for each in records(file.read_bytes(), gateway.number):
            self.decided += 1
            self.degraded += each.source == "local_share" or each.reason == "store_unavailable"
            self.refused_open += each.status == 503 and self.rules[each.rule].on_failure == "open"
            if each.allowed:
                for checker in (self.checkers[each.rule], self._since[each.rule]):
                    checker.admitted(each.client, each.cost, each.invoked_us, each.completed_us)
        file.unlink()
        self.unhandled += told["unhandled"]
        inside = told["inside"]
        self.samples.append(Sample(f"gateway {gateway.number}", second, inside["rss_kb"], inside["files"]))

    def settle(self) -> None:
        """Forget what can matter no more."""
        for checker in self.checkers:
            checker.settle(now_us() - SETTLE_US)

    def most_over(self) -> float:
        """Tokens over the limit since this was asked for the last time, at most, by any rule."""
        worst = [float(found.tokens) for checker in self._since if (found := checker.worst())]
        self._since = [IntervalChecker(rule) for rule in self.rules]
        return max([0.0, *worst])


def samples_of(servers: Iterable[Server], second: float) -> list[Sample]:
    return [
        Sample(f"server {server.port}, process {server.pid}", second, _rss_kb(server.pid), _files(server.pid))
        for server in servers
        if server.runs
    ]


def keys_for_ever(leaders: Iterable[Server]) -> list[str]:
    """Buckets that never expire."""
    found = []
    for server in leaders:
        with server.client() as client:
            keys = [key for key in client.scan_iter("limen*", 1000) if _is_of_a_client(key)]
            asked = client.pipeline(transaction=False)
            for key in keys:
                asked.pttl(key)
            found += [repr(key) for key, left in zip(keys, asked.execute(), strict=True) if left == -1]
    return found


def _is_of_a_client(key: bytes) -> bool:
    return key not in NOT_BUCKETS and not key.startswith(MARK_HEAD)


def usage(samples: list[Sample], from_s: float, least_s: float) -> list[Usage]:
    """Of each process that was seen for so many seconds at least, after it had `from_s` to warm up."""
    processes: dict[str, list[Sample]] = {}
    for each in samples:
        processes.setdefault(each.process, []).append(each)
    warm = [[each for each in found if each.second >= found[0].second + from_s] for found in processes.values()]
    return [_usage(found) for found in warm if len(found) > 1 and found[-1].second - found[0].second >= least_s]


def _usage(found: list[Sample]) -> Usage:
    mean_s = sum(each.second for each in found) / len(found)
    mean_kb = sum(each.rss_kb for each in found) / len(found)
    square = sum((each.second - mean_s) ** 2 for each in found)
    slope = sum((each.second - mean_s) * (each.rss_kb - mean_kb) for each in found) / square
    first, last = found[0], found[-1]
    return Usage(first.process, last.second - first.second, slope * 3600 / first.rss_kb, last.files - first.files)


def _rss_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def _files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
