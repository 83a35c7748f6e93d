"""The `limen` command."""

from __future__ import annotations

import sys

__all__ = ["main"]

DONE, NO, USAGE, UNREACHABLE = 0, 1, 2, 3


def main() -> None:
    """Run the command line; its exit status is 0 done, 1 the answer is no, 2 bad input, 3 something is unreachable."""
    try:
        from limen.apps.cli.app import run
    except ImportError as error:
        print(f"limen: the command line needs more libraries ({error}): pip install 'limen[all]'", file=sys.stderr)
        sys.exit(USAGE)
    sys.exit(run(sys.argv[1:]))
