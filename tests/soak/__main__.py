"""`./dev soak --hours H --seed S`: a fleet under load on a cluster of six, and a random fault each minute.

Ends with 0 when everything held that is promised, else with 1. The report is in .results/soak.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from limen.testing.servers.firewall import Firewall
from tests.soak.report import write
from tests.soak.run import Wish, soak

RESULTS = Path(__file__).resolve().parents[2] / ".results" / "soak"


def main() -> int:
    asked = _arguments()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that no server is left behind
    minutes = max(1, round(asked.minutes if asked.minutes is not None else 60 * asked.hours))
    seed = asked.seed if asked.seed is not None else int(time.time())
    _tell(f"soak of {minutes} minutes, seed {seed}")
    with tempfile.TemporaryDirectory(prefix="limen-soak-") as folder:
        wish = Wish(minutes, seed, Path(folder), asked.minute_s, asked.gateways, asked.rate, _tell)
        outcome = soak(wish)
    page = write(outcome, RESULTS / f"seed-{seed}-{minutes}-minutes")
    print(page.read_text())
    print(f"report: {page}")
    return 0 if outcome.passed else 1


def _tell(line: str) -> None:
    print(line, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--minutes", type=float, help="instead of hours")
    parser.add_argument("--seed", type=int, help="the same seed makes the same faults; by default another each time")
    parser.add_argument("--gateways", type=int, default=4)
    parser.add_argument("--rate", type=float, default=150.0, help="requests a second to each gateway")
    parser.add_argument("--minute-s", type=float, default=60.0, help="how long a minute is, for trials")
    if not Firewall.is_there():
        parser.error("it breaks the network too, which needs root and iptables")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
