"""What can be set, checked once. Flags, `LIMEN_*` variables and `limen.toml` all end here."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from limen.admin.guard_settings import GuardSettings
from limen.errors import SettingsError

__all__ = ["FIELD_NAME", "Listen", "Shared", "default_state"]

MIN_SECRET = 16
FIELD_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^`|~-]+")
"""RFC 9110 section 5.6.2, without the `_`: many servers read that as a `-`, so the gateway drops such fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What gateways and services have in common.

    Attributes:
        store: URL of the counter store.
        rules_db: URL of the rules database.
        secret: keys the hashes of clients and API keys; by default the one that is kept with the rules.
        previous_secret: the one before it, while it is being replaced; `kept-with-the-rules` for that of the database.
        gateways: how many processes decide at least; each gets that part of a limit while the store is away.
        deadline_ms: the longest that a decision waits for the store.
        poll_s: seconds between two looks at the rules.
        api_key_header: the request field that holds the API key.
        trusted_proxies: networks whose X-Forwarded-For is believed.
        dialects: of the response fields.
        state: the folder for the last good rules; None keeps none, for there is no place.
        drain_s: how long a process that was told to stop goes on serving, so that traffic can go elsewhere.
        guard: when a change of rules is held up.
        sample_percent: of the clients, how many are sampled beside those who ask most; 0 samples nobody.
        sample_hours: how long the sample is kept.
    """

    store: str
    rules_db: str
    secret: str | None = field(default=None, repr=False)
    previous_secret: str | None = field(default=None, repr=False)
    gateways: int = 1
    deadline_ms: float = 5.0
    poll_s: float = 10.0
    api_key_header: str = "X-API-Key"
    trusted_proxies: tuple[str, ...] = ()
    dialects: tuple[str, ...] = ("ietf-11", "legacy")
    state: Path | None = field(default_factory=lambda: default_state(os.environ))
    drain_s: float = 1.0
    guard: GuardSettings = field(default_factory=GuardSettings)
    sample_percent: float = 1.0
    sample_hours: float = 6.0

    def __post_init__(self) -> None:
        _check_secrets(self.secret, self.previous_secret)
        if not 0.5 <= self.deadline_ms <= 1000:
            raise SettingsError(f"deadline_ms must be between 0.5 and 1000, not {self.deadline_ms}")
        if not 0.1 <= self.poll_s <= 30:
            raise SettingsError(f"poll_s must be between 0.1 and 30, not {self.poll_s}")
        if not 0 <= self.drain_s <= 300:
            raise SettingsError(f"drain_s must be between 0 and 300, not {self.drain_s}")
        if not 0 <= self.sample_percent <= 100:
            raise SettingsError(f"sample_percent must be between 0 and 100, not {self.sample_percent}")
        if not 0.1 <= self.sample_hours <= 168:
            raise SettingsError(f"sample_hours must be between 0.1 and 168, not {self.sample_hours}")
        if not FIELD_NAME.fullmatch(self.api_key_header):
            raise SettingsError(f"{self.api_key_header!r} is not the name of a header; write it like X-API-Key")


def default_state(environment: Mapping[str, str]) -> Path | None:
    """The user's folder for what programs keep (XDG base directories, 0.8); None for one who has no home."""
    given = environment.get("XDG_STATE_HOME", "")
    if given.startswith("/"):
        return Path(given) / "limen"
    try:
        return Path.home() / ".local" / "state" / "limen"
    except RuntimeError:
        return None


def _check_secrets(secret: str | None, previous: str | None) -> None:
    for name, each in (("secret", secret), ("previous secret", previous)):
        if each is not None and not MIN_SECRET <= len(each.encode()) <= 64:
            raise SettingsError(f"the {name} must have {MIN_SECRET} to 64 bytes; make one with: openssl rand -hex 24")
    if previous is not None and secret is None:
        raise SettingsError("there is a previous secret and none that replaces it; set LIMEN_SECRET to the new one")
    if previous is not None and previous == secret:
        raise SettingsError("the secret and the previous secret are the same; give the new one as LIMEN_SECRET")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where a server listens, and its certificate."""

    host: str = "127.0.0.1"
    port: int
    certfile: Path | None = None
    keyfile: Path | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"a port is between 0 and 65535, not {self.port}")
        if (self.certfile is None) != (self.keyfile is None):
            raise SettingsError("TLS needs both a certificate file and a key file")
        for file in (self.certfile, self.keyfile):
            if file is not None and not file.is_file():
                raise SettingsError(f"{file} is not there or not a file")
        if self.certfile is not None:
            self._load_certificate()

    def _load_certificate(self) -> None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certfile or "", self.keyfile, lambda: "")
        except (ssl.SSLError, OSError) as error:
            raise SettingsError(
                f"{self.certfile} and {self.keyfile} are not a certificate and its key, in PEM and without a passphrase"
            ) from error

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.certfile else ''}://{host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"
