"""python -m bench [NAME…] [--quick] [--rounds N] [--seconds S] [--count N] [--json FILE]"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.cancel import cancel
from bench.check import check
from bench.flood import flood
from bench.hang import hang
from bench.match import match
from bench.memory import memory
from bench.replay import replay
from bench.saturate import saturate
from bench.settings import FULL, QUICK, Settings
from bench.start import start
from bench.swap import swap
from bench.table import as_text

BENCHMARKS: dict[str, Callable[[Settings], dict[str, Any]]] = {
    "check": check,
    "start": start,
    "hang": hang,
    "saturate": saturate,
    "memory": memory,
    "cancel": cancel,
    "flood": flood,
    "match": match,
    "swap": swap,
    "replay": replay,
}


def main() -> None:
    given = _arguments()
    settings = _settings(given)
    reports = {}
    for name in given.names or BENCHMARKS:
        reports[name] = BENCHMARKS[name](settings)
        print(f"\n== {name}\n{as_text(reports[name])}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(reports, indent=2, ensure_ascii=False) + "\n")


def _settings(given: argparse.Namespace) -> Settings:
    base = QUICK if given.quick else FULL
    chosen = {"rounds": given.rounds, "seconds": given.seconds}
    chosen |= dict.fromkeys(("clients", "cancellations", "keys", "rules", "lines"), given.count)
    return base._replace(**{name: value for name, value in chosen.items() if value is not None})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="Benchmarks with peers. Ratios are what to read.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; all when none is given")
    parser.add_argument("--quick", action="store_true", help="a run that shows that everything works, and no numbers")
    parser.add_argument("--rounds", type=_positive(int), help="how often each row is measured, in turn")
    parser.add_argument("--seconds", type=_positive(float), help="how long each measurement takes")
    parser.add_argument(
        "--count", "--clients", type=_positive(int), metavar="N",
        help="clients of memory (10 000 000), cancellations of cancel (1 000 000), keys of flood (400 000), rules of "
        "swap (10 000), lines of replay (1 000 000)",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to a file")
    given = parser.parse_args()
    for name in given.names:
        if name not in BENCHMARKS:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
    return given


def _positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    def read(text: str) -> float:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return value

    return read


if __name__ == "__main__":
    main()
