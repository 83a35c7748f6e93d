from hypothesis import given
from hypothesis import strategies as st

from limen.admin.api_keys import Secrets, api_key_digest, fingerprint
from limen.admin.directory import ClientRecord, Directory
from limen.admin.records import StoredClient

SECRET = b"s" * 32


def test_a_digest_has_256_bits_and_depends_on_key_and_secret() -> None:
    digests = {api_key_digest(key, secret) for key in ("one-key", "another") for secret in (SECRET, b"other", b"")}
    assert len(digests) == 6
    assert {len(digest) for digest in digests} == {64}


def test_a_long_secret_counts_to_its_end() -> None:
    assert api_key_digest("key", b"x" * 200 + b"a") != api_key_digest("key", b"x" * 200 + b"b")


@given(st.text())
def test_whatever_arrives_as_a_key_has_a_digest_that_does_not_contain_it(key: str) -> None:
    digest = api_key_digest(key, SECRET)
    assert digest == api_key_digest(key, SECRET)
    assert len(key) < 8 or key not in digest
    assert digest.startswith(fingerprint(digest))


def test_a_directory_finds_who_a_key_belongs_to() -> None:
    keys = [api_key_digest(key, SECRET) for key in ("acme-1", "acme-2", "solo-1")]
    clients = [StoredClient("acme", "gold", (keys[0], keys[1]), 1), StoredClient("solo", None, (keys[2],), 2)]
    directory = Directory(clients, Secrets(SECRET))
    assert directory.find("acme-1") == directory.find("acme-2") == ClientRecord("acme", "gold", None)
    assert directory.find("solo-1") == ClientRecord("solo", None)
    assert len(directory) == 2


def test_a_directory_knows_nobody_by_a_wrong_key_or_by_a_stored_hash() -> None:
    digest = api_key_digest("acme-1", SECRET)
    directory = Directory([StoredClient("acme", "gold", (digest,), 1)], Secrets(SECRET))
    assert [directory.find(key) for key in ("acme-2", "", digest, "\udcff")] == [None] * 4
    assert Directory().find("acme-1") is None


def test_while_a_secret_is_replaced_keys_of_both_count_and_none_of_a_third() -> None:
    hashed_with = {"old": b"before", "new": SECRET, "lost": b"long ago"}
    clients = [StoredClient(name, None, (api_key_digest(name, secret),), 1) for name, secret in hashed_with.items()]
    during, after = Directory(clients, Secrets(SECRET, b"before")), Directory(clients, Secrets(SECRET))
    assert [during.find(name) for name in hashed_with] == [ClientRecord("old"), ClientRecord("new"), None]
    assert [after.find(name) for name in hashed_with] == [None, ClientRecord("new"), None]
