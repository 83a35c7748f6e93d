"""`limen doctor`: is everything that Limen needs there, and fit for it?"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from limen.apps.cli import DONE, NO, UNREACHABLE
from limen.apps.cli.options import AsJson, Whole, listen

if TYPE_CHECKING:
    from limen.stores.valkey.doctor.finding import Finding

__all__ = ["doctor"]


def doctor(
    *,
    store: str = "",
    rules_db: str = "",
    deadline_ms: float = 5.0,
    host: str = "127.0.0.1",
    port: Whole = 8080,
    admin_port: Whole = 8090,
    state: Path | None = None,
    as_json: AsJson = False,
) -> int:
    """Check the store, the rules database and this machine; a line for each check, with what to do.

    Exit status 1: something is wrong; 3: the store or the database does not answer. Warnings alone are 0.

    Args:
        store: URL of the counter store, as the gateways have it.
        rules_db: URL of the rules database; by default that of `limen up`, if it is there.
        deadline_ms: The longest that a decision waits for the store.
        host: Address that a gateway would listen on.
        port: Its port.
        admin_port: Port of the service.
        state: Folder for the last good rules, as the gateways have it.
        as_json: Print JSON.
    """
    import asyncio

    from limen.apps.doctor import examine_all
    from limen.apps.settings import Shared, default_state

    folder = state or default_state(os.environ)
    settings = Shared(store=store, rules_db=rules_db, deadline_ms=deadline_ms, state=folder)
    ports = [listen(host, port), listen(host, admin_port)]
    logging.getLogger("limen.store").setLevel(logging.ERROR)  # what it would say is among the findings
    found = asyncio.run(examine_all(settings, ports))
    print(_as_json(found) if as_json else "\n".join(map(str, found)))
    return _status(found)


def _as_json(found: Sequence[Finding]) -> str:
    from limen.stores.valkey.doctor.finding import worst

    return json.dumps({"status": worst(found), "checks": [finding._asdict() for finding in found]})


def _status(found: Sequence[Finding]) -> int:
    if any(finding.unreachable for finding in found):
        return UNREACHABLE
    return NO if any(finding.status == "fail" for finding in found) else DONE
