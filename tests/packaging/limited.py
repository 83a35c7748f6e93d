"""Run the program on stdin as if less were installed: `limited.py FOLDER WITHOUT ARGUMENTS…`.

The folder comes first among the places where modules are found. `WITHOUT` names what is not there, with commas
between; when it is empty, nothing is there but the standard library, Limen, and what Limen always requires.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import NoReturn

REQUIRED = {"limen", "hiredis", "redis", "yaml", "_yaml"}
if sys.version_info < (3, 11, 3):
    REQUIRED.add("async_timeout")  # which redis requires there


class Limited(MetaPathFinder):
    """Finds nothing, and ends the search for what is not there."""

    def __init__(self, without: set[str]) -> None:
        self._without = without

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        top = name.partition(".")[0]
        if top in self._without or not (self._without or top in REQUIRED or _in_stdlib(top)):
            _missing(name)


def _in_stdlib(top: str) -> bool:
    """The module of this build's settings has a name of each platform's own."""
    return top in sys.stdlib_module_names or top.startswith("_sysconfigdata_")


def _missing(name: str) -> NoReturn:
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main(folder: str, without: str, *arguments: str) -> None:
    sys.path.insert(0, folder)
    sys.meta_path.insert(0, Limited({name for name in without.split(",") if name}))
    sys.argv = ["limen", *arguments]
    exec(compile(sys.stdin.read(), "program", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main(*sys.argv[1:])
