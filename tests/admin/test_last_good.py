"""The file that a process starts from while its rules database is away."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limen.admin.last_good import LastGood, Saved
from limen.admin.records import Snapshot, StoredClient, StoredRule
from limen.errors import RulesUnavailable

URL = "postgresql://limen:hunter2@db.example:5432/limen"
RULE = StoredRule("search", '{"id": "search", "limit": "1/minute", "tags": ["ü"]}', 3, 7, 1_700_000_000)
SAVED = Saved(Snapshot(7, (RULE,), (StoredClient("acme", "gold", ("0a" * 32,), 5),)), "5e" * 32)


@pytest.fixture
def disk(tmp_path: Path) -> LastGood:
    return LastGood(tmp_path / "state" / "limen", URL)


def test_what_was_saved_is_what_is_loaded(disk: LastGood) -> None:
    assert disk.save(SAVED)
    assert LastGood(disk.path.parent, URL).load() == SAVED


@given(
    st.builds(
        Saved,
        st.builds(
            Snapshot,
            st.integers(0, 2**63 - 1),
            st.lists(
                st.builds(StoredRule, st.text(), st.text(), st.integers(1), st.integers(1), st.integers(0)), max_size=3
            ).map(tuple),
            st.lists(
                st.builds(
                    StoredClient, st.text(), st.none() | st.text(), st.lists(st.text()).map(tuple), st.integers(1)
                ),
                max_size=3,
            ).map(tuple),
        ),
        st.none() | st.text(),
    )
)
def test_whatever_the_database_holds_can_be_saved(tmp_path_factory: pytest.TempPathFactory, saved: Saved) -> None:
    disk = LastGood(tmp_path_factory.mktemp("any"), URL)
    disk.save(saved)
    assert disk.load() == saved


def test_only_its_owner_may_read_it_and_it_does_not_hold_the_password(disk: LastGood) -> None:
    disk.save(SAVED)
    assert stat.S_IMODE(disk.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(disk.path.parent.stat().st_mode) == 0o700
    assert "hunter2" not in disk.path.read_text() + str(disk.path)


def test_what_is_there_already_is_not_written_again(disk: LastGood) -> None:
    disk.save(SAVED)
    inode = disk.path.stat().st_ino
    assert not disk.save(SAVED)
    assert disk.path.stat().st_ino == inode
    other = LastGood(disk.path.parent, URL)
    other.load()
    assert not other.save(SAVED), "a process that began with it knows it too"
    assert disk.save(SAVED._replace(kept_secret=None))
    assert disk.path.stat().st_ino != inode
    disk.path.unlink()
    assert disk.save(SAVED._replace(kept_secret=None)), "somebody took it away"


def test_each_database_has_its_file_whatever_its_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def path(url: str) -> Path:
        return LastGood(tmp_path, url).path

    assert path(URL) == path(URL.replace("hunter2", "correct-horse")) == path(URL + "?password=x")
    others = [URL, URL + "2", URL.replace("db.", "db2."), URL.replace("limen:", "other:"), URL + "?host=/tmp/a"]
    assert len({path(url) for url in others}) == len(others)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    relative = path("sqlite:///rules.db")
    assert relative == path(f"sqlite:///{tmp_path}/rules.db")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert relative != path("sqlite:///rules.db")


def refused(disk: LastGood, *words: str) -> None:
    with pytest.raises(RulesUnavailable) as caught:
        LastGood(disk.path.parent, URL).load()
    for word in (str(disk.path), *words):
        assert word in str(caught.value)


def test_nothing_saved_is_said(disk: LastGood) -> None:
    refused(disk, "nothing was saved yet")


def test_no_byte_can_be_changed_unseen(disk: LastGood) -> None:
    disk.save(SAVED)
    good = disk.path.read_bytes()
    for at in range(len(good)):
        disk.path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        refused(disk)
    disk.path.write_bytes(good)
    assert LastGood(disk.path.parent, URL).load() == SAVED


def test_half_a_file_is_refused_wherever_it_ends(disk: LastGood) -> None:
    disk.save(SAVED)
    good = disk.path.read_bytes()
    for length in range(len(good)):
        disk.path.write_bytes(good[:length])
        refused(disk, "damaged")


def changed(**members: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda document: {**document, **members}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (changed(format=2), "format 2"),
        (changed(format=None), "format None"),
        (changed(content=None), "checksum"),
        (changed(sha256=None), "checksum"),
        (lambda document: [document], "not an object"),
    ],
)
def test_what_another_limen_wrote_is_refused(disk: LastGood, change: Any, word: str) -> None:
    disk.save(SAVED)
    disk.path.write_text(json.dumps(change(json.loads(disk.path.read_text()))))
    refused(disk, word)


def test_the_rules_of_another_database_are_refused(disk: LastGood) -> None:
    other = LastGood(disk.path.parent, URL + "2")
    other.save(SAVED)
    other.path.rename(disk.path)
    refused(disk, "another database")


def test_a_folder_that_cannot_be_written_is_told_and_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RulesUnavailable, match="cannot be written"):
        LastGood(tmp_path / "file" / "state", URL).save(SAVED)


def test_a_disk_that_is_full_leaves_the_old_file_whole(disk: LastGood, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.save(SAVED)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RulesUnavailable, match="No space left"):
        disk.save(SAVED._replace(kept_secret=None))
    assert [each.name for each in disk.path.parent.iterdir()] == [disk.path.name]
    assert LastGood(disk.path.parent, URL).load() == SAVED
