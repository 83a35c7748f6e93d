"""Options that several commands share. Light on purpose: `limen --help` loads this."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CoercionError, Parameter, Token

if TYPE_CHECKING:
    from limen.apps.admission import Admission
    from limen.apps.settings import Listen, Shared

__all__ = [
    "DEFAULT_RULES_DB", "Admitting", "AsJson", "Deciding", "Secrets", "Tls", "Whole", "admission", "listen", "settings",
    "until_text",
]  # fmt: skip

DEFAULT_RULES_DB = "sqlite:///.limen/rules.db"

AsJson = Annotated[bool, Parameter(name="--json", negative="")]


def whole_number(kind: type, tokens: Sequence[Token]) -> int:
    """An integer as it is written. The library's own reading of 1.5 is 1."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise CoercionError(token=tokens[0], target_type=kind) from None


Whole = Annotated[int, Parameter(converter=whole_number)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Deciding:
    """How decisions are made."""

    secret: Annotated[str | None, Parameter(show_env_var=True)] = None
    "Keys the hashes of clients and API keys; by default one that is kept with the rules. Better as LIMEN_SECRET."
    previous_secret: Annotated[str | None, Parameter(show_env_var=True)] = None
    "The secret before it, while it is being replaced. Better as LIMEN_PREVIOUS_SECRET."
    gateways: Whole = 1
    "How many processes decide at least; each gets that part of a limit while the store is away."
    deadline_ms: float = 5.0
    "The longest that a decision waits for the store."
    poll_s: float = 10.0
    "Seconds between two looks at the rules."
    api_key_header: str = "X-API-Key"
    "The request field that holds the API key."
    trusted_proxy: tuple[str, ...] = ()
    "A network whose X-Forwarded-For is believed, such as 10.0.0.0/8; may be given several times."
    dialect: tuple[str, ...] = ("ietf-11", "legacy")
    "Response fields: ietf-11, legacy, github, none; may be given several times."
    state: Path | None = None
    "Folder for the last good rules; by default ~/.local/state/limen."
    sample_percent: float = 1.0
    "Of the clients, how many are sampled beside those who ask most, to try changes of rules on; 0 samples nobody."
    sample_hours: float = 6.0
    "How long the sample is kept."


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Admitting:
    """Who may use the admin API."""

    admin_token: Annotated[str | None, Parameter(show_env_var=True)] = None
    "A token that may do everything, beside those of limen tokens create. Better as LIMEN_ADMIN_TOKEN."
    identity_header: str | None = None
    "The field in which a front proxy says who somebody is, such as X-Forwarded-Email."
    identity_from: tuple[str, ...] = ()
    "A network that the front proxy sends from; may be given several times."
    identity_role: str = "viewer"
    "Role of everybody whom it names: viewer, editor, approver."
    identity_groups_header: str | None = None
    "The field in which it says to which groups somebody belongs, such as X-Forwarded-Groups."
    identity_editors: tuple[str, ...] = ()
    "A group whose members are editors; may be given several times."
    identity_approvers: tuple[str, ...] = ()
    "A group whose members are approvers; may be given several times."


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Secrets:
    """How clients are named in the store."""

    secret: Annotated[str | None, Parameter(show_env_var=True)] = None
    "As the gateways have it."
    previous_secret: Annotated[str | None, Parameter(show_env_var=True)] = None
    "As the gateways have it, while the secret is being replaced."


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Tls:
    """Serve HTTPS."""

    tls_cert: Path | None = None
    "The certificate file."
    tls_key: Path | None = None
    "The key file."


def until_text(until: float | None) -> str:
    """When something ends, to be put behind a sentence; nothing when it never does."""
    return "" if until is None else f" until {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(until))}"


def settings(store: str, rules_db: str, deciding: Deciding, **others: Any) -> Shared:
    """The options, checked."""
    from limen.apps.settings import Shared

    if deciding.state is not None:
        others["state"] = deciding.state
    return Shared(
        store=store,
        rules_db=rules_db,
        secret=deciding.secret,
        previous_secret=deciding.previous_secret,
        gateways=deciding.gateways,
        deadline_ms=deciding.deadline_ms,
        poll_s=deciding.poll_s,
        api_key_header=deciding.api_key_header,
        trusted_proxies=tuple(deciding.trusted_proxy),
        dialects=tuple(deciding.dialect),
        sample_percent=deciding.sample_percent,
        sample_hours=deciding.sample_hours,
        **others,
    )


def admission(admitting: Admitting) -> Admission:
    """Who may use the admin API, checked."""
    from limen.apps.admission import Admission

    return Admission(
        token=admitting.admin_token,
        identity_header=admitting.identity_header,
        identity_from=tuple(admitting.identity_from),
        identity_role=admitting.identity_role,
        identity_groups_header=admitting.identity_groups_header,
        identity_editors=tuple(admitting.identity_editors),
        identity_approvers=tuple(admitting.identity_approvers),
    )


def listen(host: str, port: int, tls: Tls | None = None) -> Listen:
    """Where to listen, checked."""
    from limen.apps.settings import Listen

    files: dict[str, Any] = {"certfile": tls.tls_cert, "keyfile": tls.tls_key} if tls else {}
    return Listen(host=host, port=port, **files)
