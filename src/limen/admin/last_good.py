"""The last good rules on disk: what a process decides by that starts while the rules database is away.

One file for each database, {"format", "sha256", "content"}. The checksum is that of the content as canonical JSON: keys
sorted, no spaces. The file is written beside its place, flushed to the disk, then moved there in one step, so nobody
ever reads half of it; only its owner may read it, for it holds what the database holds: hashes of API keys, and the
secret if the database made it. One that is not whole is not used.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from limen.admin.records import Snapshot, StoredClient, StoredRule
from limen.errors import RulesUnavailable

__all__ = ["FORMAT", "LastGood", "Saved", "database_name", "replace_file"]

FORMAT = 1
MAX_BYTES = 256 << 20
SQLITE = "sqlite:///"


class Saved(NamedTuple):
    """What is kept."""

    snapshot: Snapshot
    kept_secret: str | None
    """The one that the database made, in hex; None when it is set elsewhere, and none of the disk's business."""


class LastGood:
    """The file of one rules database.

    Args:
        folder: where such files are; it is made when it is needed.
        url: of the database. Its password has no part in the name of the file.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self._database = database_name(url)
        self.path = folder / f"rules-{self._database[:16]}.json"
        self._written = ""

    @property
    def is_there(self) -> bool:
        """Whether something was saved."""
        return self.path.exists()

    def save(self, saved: Saved) -> bool:
        """Write it, unless that is what the file holds already; whether it was written.

        Raises:
            RulesUnavailable: the disk does not take it; the file is as it was.
        """
        content = _in_parts(_content(saved, self._database))
        digest = sha256(content).hexdigest()
        if digest == self._written and self.is_there:
            return False
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(self.path, b'{"format":%d,"sha256":"%s","content":%s}' % (FORMAT, digest.encode(), content))
        except OSError as error:
            raise RulesUnavailable(f"{self.path} cannot be written: {error.strerror or error}") from error
        self._written = digest
        return True

    def load(self) -> Saved:
        """What was saved last.

        Raises:
            RulesUnavailable: there is none, or it is not what was written there: damaged, of another version of Limen,
                or of another database.
        """
        document = self._document()
        if document.get("format") != FORMAT:
            raise self._refused(f"it has format {document.get('format')!r:.20}, and this Limen knows {FORMAT}")
        content = document.get("content")
        digest = sha256(_in_parts(content)).hexdigest()
        if digest != document.get("sha256"):
            raise self._refused("its checksum is wrong, so it is damaged")
        if not isinstance(content, dict) or content.get("database") != self._database:
            raise self._refused("it is of another database")
        try:
            saved = _saved(content)
        except (KeyError, TypeError) as error:
            raise self._refused(f"it lacks something: {error}") from error
        self._written = digest
        return saved

    def _document(self) -> Mapping[str, Any]:
        try:
            with self.path.open("rb") as file:
                document = json.loads(file.read(MAX_BYTES))
        except FileNotFoundError:
            raise RulesUnavailable(f"nothing was saved yet in {self.path}") from None
        except OSError as error:
            raise RulesUnavailable(f"{self.path} cannot be read: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise self._refused("it is not JSON, so it is damaged") from error
        if not isinstance(document, dict):
            raise self._refused("it is not an object, so it is damaged")
        return document

    def _refused(self, reason: str) -> RulesUnavailable:
        return RulesUnavailable(f"the rules saved in {self.path} are not used: {reason}; delete the file")


def database_name(url: str) -> str:
    """A hash of which database it is: of a file, its whole path; else the URL without passwords."""
    if url.startswith(SQLITE):
        place = f"{SQLITE}{Path(url.removeprefix(SQLITE)).resolve()}"
    else:
        login, at, host = url.partition("://")[2].rpartition("@")
        host, _, options = host.partition("?")
        shown = sorted(option for option in options.split("&") if "pass" not in option.partition("=")[0])
        place = f"{login.partition(':')[0]}{at}{host}?{'&'.join(shown)}"
    return sha256(place.encode("utf-8", "surrogatepass")).hexdigest()


def _content(saved: Saved, database: str) -> dict[str, Any]:
    snapshot = saved.snapshot
    return {
        "database": database,
        "secret": saved.kept_secret,
        "revision": snapshot.revision,
        "rules": [rule._asdict() for rule in snapshot.rules],
        "clients": [client._asdict() for client in snapshot.clients],
    }


def _saved(content: Mapping[str, Any]) -> Saved:
    """What the content says. Its checksum was right, so it is what we wrote."""
    rules = tuple(StoredRule(**rule) for rule in content["rules"])
    clients = tuple(StoredClient(**{**client, "digests": tuple(client["digests"])}) for client in content["clients"])
    return Saved(Snapshot(content["revision"], rules, clients), content["secret"])


def _canonical(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _in_parts(content: object) -> bytes:
    """The same, not in one step: that would let no other thread work for as long as it takes."""
    if not isinstance(content, dict):
        return _canonical(content)
    parts = [_canonical(name) + b":" + _value_in_parts(content[name]) for name in sorted(content)]
    return b"{" + b",".join(parts) + b"}"


def _value_in_parts(value: object) -> bytes:
    return b"[" + b",".join(map(_canonical, value)) + b"]" if isinstance(value, list) else _canonical(value)


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in the place of another in one step. `mkstemp` makes it readable for its owner alone."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".new")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """Make the move itself outlive a crash of the machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
