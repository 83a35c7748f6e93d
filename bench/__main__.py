"""python -m bench [check|start|hang …] [--quick] [--rounds N] [--seconds S] [--json FILE]"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.check import check
from bench.hang import hang
from bench.settings import FULL, QUICK, Settings
from bench.start import start
from bench.table import as_text

BENCHMARKS: dict[str, Callable[[Settings], dict[str, Any]]] = {"check": check, "start": start, "hang": hang}


def main() -> None:
    given = _arguments()
    base = QUICK if given.quick else FULL
    settings = Settings(given.rounds or base.rounds, given.seconds or base.seconds)
    reports = {}
    for name in given.names or BENCHMARKS:
        reports[name] = BENCHMARKS[name](settings)
        print(f"\n== {name}\n{as_text(reports[name])}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(reports, indent=2, ensure_ascii=False) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="Benchmarks with peers. Ratios are what to read.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; all when none is given")
    parser.add_argument("--quick", action="store_true", help="a run that shows that everything works, and no numbers")
    parser.add_argument("--rounds", type=int, help="how often each row is measured, in turn")
    parser.add_argument("--seconds", type=float, help="how long each measurement takes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to a file")
    given = parser.parse_args()
    for name in given.names:
        if name not in BENCHMARKS:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
    return given


if __name__ == "__main__":
    main()
