"""What may be set about the admin API, and what is refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from limen.admin.repository import Repository
from limen.admin.token_service import TokenService
from limen.apps.admission import Admission
from limen.apps.demo import banner
from limen.apps.settings import Listen, Shared
from limen.apps.strikes import Strikes
from limen.apps.way_in import require_way_in
from limen.errors import SettingsError
from limen.testing import ManualClock

EMAIL: dict[str, Any] = {"identity_header": "X-Forwarded-Email", "identity_from": ("10.0.0.0/8",)}
GROUPS: dict[str, Any] = {"identity_groups_header": "X-Forwarded-Groups", "identity_approvers": ("leads",)}

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"token": ""}, "empty"),
    ({"token": "  "}, "empty"),
    ({"identity_header": "X-Forwarded-Email"}, "identity_from"),
    ({"identity_from": ("10.0.0.0/8",)}, "identity_header"),
    ({**EMAIL, "identity_header": "X Forwarded"}, "not the name of a header"),
    ({**EMAIL, "identity_header": "X_Forwarded_Email"}, "not the name of a header"),
    ({**EMAIL, "identity_header": ""}, "not the name of a header"),
    ({**EMAIL, "identity_from": ("ten",)}, "'ten' is not a network"),
    ({**EMAIL, "identity_from": ("0.0.0.0/0",)}, "everybody be anybody"),
    ({**EMAIL, "identity_from": ("::/0",)}, "everybody be anybody"),
    ({**EMAIL, "identity_role": "king"}, "'king' is not a role"),
    ({"identity_role": "editor"}, "no identity_header"),
    (GROUPS, "no identity_header"),
    ({**EMAIL, "identity_groups_header": "X-Groups"}, "identity_editors or identity_approvers"),
    ({**EMAIL, "identity_editors": ("sre",)}, "identity_groups_header"),
    ({**EMAIL, **GROUPS, "identity_groups_header": "bad name"}, "not the name of a header"),
]


@pytest.mark.parametrize(("fields", "sentence"), WRONG, ids=range(len(WRONG)))
def test_what_cannot_work_is_refused_with_a_sentence(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        Admission(**fields)


def test_what_can_work_is_taken_and_the_token_is_not_shown() -> None:
    admission = Admission(token="canary-token", **EMAIL, **GROUPS)
    assert admission.front is not None
    assert admission.front.approvers == {"leads"}
    assert "canary-token" not in repr(admission)
    assert Admission().front is None


@pytest.mark.parametrize(
    ("host", "fields", "guarded"),
    [
        ("127.0.0.1", {}, False), ("::1", {}, False), ("localhost", {}, False), ("127.0.0.1", {"token": "t"}, True),
        ("127.0.0.1", EMAIL, True), ("0.0.0.0", {}, True), ("192.0.2.1", {}, True), ("limen.example", {}, True),
    ],
)  # fmt: skip
def test_only_an_address_of_this_machine_may_be_without_a_guard(host: str, fields: Any, guarded: bool) -> None:
    assert Admission(**fields).is_guarded(Listen(host=host, port=1)) is guarded


async def test_S35_a_public_address_needs_a_token_or_a_front_proxy(tmp_path: Path) -> None:
    settings = Shared(store="memory://", rules_db=f"sqlite:///{tmp_path}/rules.db", state=tmp_path)
    public, here = Listen(host="0.0.0.0", port=1), Listen(port=1)
    with pytest.raises(SettingsError, match="limen tokens create"):
        await require_way_in(settings, public, Admission())
    await require_way_in(settings, here, Admission())
    await require_way_in(settings, public, Admission(token="t"))
    await require_way_in(settings, public, Admission(**EMAIL))
    async with Repository(settings.rules_db) as repository:
        made = await TokenService(repository).create({"name": "ann", "role": "approver"})
    await require_way_in(settings, public, Admission())
    async with Repository(settings.rules_db) as repository:
        await TokenService(repository).revoke(made.token.id)
    with pytest.raises(SettingsError):
        await require_way_in(settings, public, Admission())


async def test_with_its_database_away_it_may_start_for_nobody_comes_in(tmp_path: Path) -> None:
    settings = Shared(store="memory://", rules_db=f"sqlite:///{tmp_path}/never/rules.db", state=tmp_path)
    await require_way_in(settings, Listen(host="0.0.0.0", port=1), Admission())


def test_the_banner_of_up_says_so_when_its_commands_need_a_token() -> None:
    places = "http://127.0.0.1:8080", "http://127.0.0.1:8090", "a demo API", "memory://"
    assert "Authorization" not in banner(*places)
    (change,) = [line for line in banner(*places, needs_token=True).splitlines() if "-X PUT" in line]
    assert '-H "Authorization: Bearer $LIMEN_ADMIN_TOKEN"' in change
    assert "limen tokens create" in banner(*places, needs_token=True)


def test_S16_strikes_of_many_addresses_are_remembered_within_bounds(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    strikes = Strikes(clock)
    for number in range(3000):
        for _ in range(11):
            strikes(f"2001:db8:{number:x}::1")
    lines = [record for record in caplog.records if "wrong tokens" in record.getMessage()]
    assert len(lines) == 1, "one line a minute, not one for each address"
    clock.advance(seconds=60)
    assert strikes("2001:db8::2") is None
    assert strikes("") is None
    assert strikes("rubbish") is None
