"""The command line: what there is, and how its outcome becomes an exit status."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError
from cyclopts.config import Env, Toml

from limen.apps.cli import DONE, NO, UNREACHABLE, USAGE
from limen.apps.cli.apply import apply
from limen.apps.cli.audit import audit
from limen.apps.cli.blocks import allow, block, unblock
from limen.apps.cli.checks import check, grant, reset
from limen.apps.cli.diff import diff
from limen.apps.cli.doctor import doctor
from limen.apps.cli.explain import explain
from limen.apps.cli.fleet import drill, fleet
from limen.apps.cli.history import history, migrate, rollback
from limen.apps.cli.promote import promote
from limen.apps.cli.proposals import approve, proposals, reject
from limen.apps.cli.replay import replay
from limen.apps.cli.rule_tests import print_schema, try_rules
from limen.apps.cli.rules import rules
from limen.apps.cli.serve import gateway, service, up
from limen.apps.cli.standing import flag, override, standing
from limen.apps.cli.tokens import tokens
from limen.errors import GuardRefused, LimenError, Unavailable

__all__ = ["app", "run"]


def _version() -> str:
    from importlib.metadata import version

    return version("limen")


class _File(Toml):
    """limen.toml, whose mistakes are told with its name."""

    def _load_config(self, path: Path) -> dict[str, Any]:
        try:
            found = super()._load_config(path)
        except ValueError as error:
            raise CycloptsError(msg=f"{path.name}: {error}") from error
        unknown = sorted(key for key in found if key.replace("-", "_") not in _settings())
        if unknown:
            known = ", ".join(sorted(_settings()))
            raise CycloptsError(msg=f"{path.name}: {unknown[0]!r} is no setting here; there are {known}")
        return found


def _settings() -> set[str]:
    """What some command can be told. A name that is a command's as well cannot stand in the file."""
    names = {
        name for command in COMMANDS for each in app[command].assemble_argument_collection() for name in each.names
    }
    options = {
        name[2:].replace("-", "_") for name in names if name.startswith("--") and not name.startswith("--empty-")
    }
    return options - set(app)


COMMANDS = ("up", "gateway", "service", "check", "explain", "reset", "grant", "doctor")

app = App(
    name="limen",
    help="Rate limits that are exact across a fleet.\n\nSettings come from flags, LIMEN_* variables, then limen.toml.",
    help_format="plaintext",
    help_formatter="plain",
    version=_version,
    config=[Env("LIMEN_", command=False), _File("limen.toml", use_commands_as_keys=False, allow_unknown=True)],
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
)
for command in (up, gateway, service, rules, check, explain, reset, grant, fleet, drill, doctor, replay, tokens, audit):
    app.command(command)
for said in (block, allow, unblock, flag, override, standing):
    app.command(said)


rules.command(try_rules, name="test")
rules.command(print_schema, name="schema")
for about_rules in (apply, diff, promote, history, rollback, migrate, proposals, approve, reject):
    rules.command(about_rules)


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit status. Errors are sentences on stderr, never tracebacks."""
    logging.basicConfig(level=logging.WARNING, format="limen: %(message)s", stream=sys.stderr)
    try:
        outcome = app(list(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        return _nobody_reads()
    except CycloptsError as error:
        return _failed(_without_passwords(str(error)), USAGE)
    except Unavailable as error:
        return _failed(str(error), UNREACHABLE)
    except GuardRefused as error:
        return _failed(str(error), NO)
    except LimenError as error:
        return _failed(str(error), USAGE)
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}" if error.filename else str(error), USAGE)
    return outcome if isinstance(outcome, int) else DONE


def _nobody_reads() -> int:
    """Whoever read the output has seen enough, as `head` has: no error, and nothing more is written at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE


def _failed(sentence: str, status: int) -> int:
    print(f"limen: {sentence}", file=sys.stderr)
    return status


def _without_passwords(sentence: str) -> str:
    """A sentence about words of the command line, which may be the URL of a store."""
    sentence = re.sub(r":\S*@", ":***@", sentence)  # up to the last @: a password may hold one
    return re.sub(r"(sentinel_password=)[^\s&]*", r"\1***", sentence)
