"""What is set about who may use the admin API, checked once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from limen.admin.callers import VIEWER, role_named
from limen.admin.front_proxy import FrontProxy
from limen.apps.settings import FIELD_NAME, Listen
from limen.errors import SettingsError, UsageError
from limen.rules.client_ip import networks

__all__ = ["Admission"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Who is let in, beside those who have a token in the rules database.

    Attributes:
        token: whose bearer may do everything; None: there is none.
        identity_header: the field in which a front proxy says who somebody is; None: no proxy is believed.
        identity_from: networks of that proxy.
        identity_role: of everybody whom it names.
        identity_groups_header: the field in which it says to which groups somebody belongs.
        identity_editors, identity_approvers: groups whose members have that role.
    """

    token: str | None = field(default=None, repr=False)
    identity_header: str | None = None
    identity_from: tuple[str, ...] = ()
    identity_role: str = VIEWER
    identity_groups_header: str | None = None
    identity_editors: tuple[str, ...] = ()
    identity_approvers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.token is not None and not self.token.strip():
            raise SettingsError("the admin token is empty; set LIMEN_ADMIN_TOKEN to one, such as: openssl rand -hex 24")
        for problem in self._problems():
            raise SettingsError(problem)
        _ = self.front

    @property
    def front(self) -> FrontProxy | None:
        """The front proxy that is believed.

        Raises:
            SettingsError: a role or a network is wrong.
        """
        if self.identity_header is None:
            return None
        try:
            return FrontProxy(
                header=self.identity_header,
                sources=networks(self.identity_from),
                role=role_named(self.identity_role),
                groups_header=self.identity_groups_header,
                editors=frozenset(self.identity_editors),
                approvers=frozenset(self.identity_approvers),
            )
        except UsageError as error:
            raise SettingsError(str(error)) from error

    def is_guarded(self, listen: Listen) -> bool:
        """Whether something is needed to come in, tokens in the rules database or not."""
        return self.token is not None or self.identity_header is not None or not listen.is_local

    def _problems(self) -> Iterator[str]:
        if (self.identity_header is None) != (not self.identity_from):
            yield "a front proxy needs both: identity_header, and identity_from with the addresses that may send it"
        if self.identity_header is None and (self.identity_groups_header or self.identity_role != VIEWER):
            yield "there is something about identities and no identity_header"
        for name in (self.identity_header, self.identity_groups_header):
            if name is not None and not FIELD_NAME.fullmatch(name):
                yield f"{name!r} is not the name of a header; write it like X-Forwarded-Email"
        if (self.identity_groups_header is None) == bool(self.identity_editors or self.identity_approvers):
            yield "groups need both: identity_groups_header, and identity_editors or identity_approvers"
        for network in self.identity_from:
            if network.strip().endswith("/0"):
                yield f"identity_from {network} lets everybody be anybody; name the addresses of the front proxy"
