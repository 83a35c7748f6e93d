"""Options that several commands share. Light on purpose: `limen --help` loads this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CoercionError, Parameter, Token

if TYPE_CHECKING:
    from limen.apps.settings import Listen, Shared

__all__ = ["DEFAULT_RULES_DB", "AsJson", "Deciding", "Secrets", "Tls", "Whole", "listen", "settings"]

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
        **others,
    )


def listen(host: str, port: int, tls: Tls | None = None) -> Listen:
    """Where to listen, checked."""
    from limen.apps.settings import Listen

    files: dict[str, Any] = {"certfile": tls.tls_cert, "keyfile": tls.tls_key} if tls else {}
    return Listen(host=host, port=port, **files)
