"""Names of decisions cannot be forged, and keys open what they are made for."""

import random
import stat
import threading

import pytest

from armrace.errors import (
    AlreadyExists,
    DamagedFile,
    ForeignTicket,
    InvalidParameter,
    RewardConflict,
    UnknownName,
)
from armrace.service.keyring import LEASE, Keyring, SigningKeys, TokenContent
from serving import records
from torture.forgeries import forge

CONTENT = TokenContent(log=3, sequence=12345, arm=2, closes=1_700_000_000_000)
KEYS = SigningKeys({1: bytes(32), 2: bytes(range(32))})


def refused(tenant, token, keys=KEYS):
    try:
        keys.read(tenant, token)
    except ForeignTicket:
        return True
    return False


def test_a_token_says_what_was_signed():
    token = KEYS.sign("main", CONTENT)
    assert KEYS.read("main", token) == CONTENT
    assert token.isascii()
    assert len(token) == 60


def test_mutated_tokens_are_refused():
    """20,000 mutations: of a character, of a bit, of two characters swapped, of the content."""
    rng = random.Random(1)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/ "
    token = KEYS.sign("main", CONTENT)
    tried = 0
    while tried < 20_000:
        letters = list(token)
        for _ in range(rng.randint(1, 3)):
            letters[rng.randrange(len(letters))] = rng.choice(alphabet)
        mutated = "".join(letters)
        if mutated != token:
            tried += 1
            assert refused("main", mutated), mutated


@pytest.mark.parametrize("token", ["", "x", None, 5, b"abc", "é" * 60, "A" * 60, "\ud800" * 60])
def test_what_is_no_token_is_refused(token):
    assert refused("main", token)


def test_a_token_of_another_tenant_or_key_is_refused():
    token = KEYS.sign("main", CONTENT)
    assert refused("other", token)
    assert refused("main", token, SigningKeys({2: bytes(32)}))
    assert refused("main", token, SigningKeys({3: bytes(range(32))}))


def test_the_name_of_a_lease_is_none_of_a_decision():
    lease = KEYS.sign("main", CONTENT, LEASE)
    assert KEYS.read("main", lease, LEASE) == CONTENT
    assert refused("main", lease)


def test_tokens_outlive_one_rotation_of_keys():
    keyring = Keyring()
    token = keyring.signing_keys().sign("main", CONTENT)
    keyring.rotate()
    assert keyring.signing_keys().read("main", token) == CONTENT
    keyring.rotate()
    assert refused("main", token, keyring.signing_keys())


def test_keys_are_kept_as_digests_in_a_private_file(tmp_path):
    path = tmp_path / "keys"
    keyring = Keyring(path)
    key, text = keyring.create(["decide", "reward"], tenant="shop", label="web shop")
    assert (key.tenant, key.label) == ("shop", "web shop")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert text.split("_", 2)[2] not in path.read_text()
    again = Keyring(path)
    assert again.find(text) == key
    assert again.signing_keys().read("main", keyring.signing_keys().sign("main", CONTENT))
    assert key.allows("decide")
    assert not key.allows("read")


def test_a_revoked_or_wrong_key_opens_nothing(tmp_path):
    keyring = Keyring(tmp_path / "keys")
    key, text = keyring.create(["admin"])
    assert key.allows("read")
    assert keyring.find(text[:-1]) is None
    assert keyring.find(text.replace(key.id, "0" * 12)) is None
    assert keyring.find("") is None
    other = Keyring(tmp_path / "keys")
    keyring.revoke(key.id)
    assert keyring.find(text) is None
    assert other.find(text) == key
    other.refresh()
    assert other.find(text) is None
    assert other.has_keys  # a service that had a key stays closed
    with pytest.raises(UnknownName, match="there is no key 'x'"):
        keyring.revoke("x")


@pytest.mark.parametrize("scopes", [[], ["write"], ["read", "everything"]])
def test_unknown_scopes_are_refused(scopes):
    with pytest.raises(InvalidParameter, match="scopes must be among decide, reward, read, admin"):
        Keyring().create(scopes)


@pytest.mark.parametrize(
    "content", ["", "{}", '{"signing": {}, "keys": []}', '{"signing": {"1": "AA=="}, "keys": []}']
)
def test_a_damaged_key_file_is_refused(tmp_path, content):
    path = tmp_path / "keys"
    path.write_text(content)
    with pytest.raises(DamagedFile, match="the keys in"):
        Keyring(path)


def test_a_key_file_that_is_damaged_later_changes_nothing_and_is_told(tmp_path):
    path = tmp_path / "keys"
    keyring = Keyring(path)
    _, text = keyring.create(["admin"])
    good = path.read_bytes()
    for damaged in (b"{}", None):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        for _ in range(2):
            keyring.refresh()
            assert keyring.find(text) is not None
            assert keyring.problem is not None
        with pytest.raises(DamagedFile, match="the keys in"):
            keyring.create(["read"])
    path.write_bytes(good)
    keyring.refresh()
    assert keyring.problem is None


def test_keys_that_are_created_at_once_are_all_kept(tmp_path):
    made, begin = [], threading.Barrier(8)

    def create():
        keyring = Keyring(tmp_path / "keys")
        begin.wait()
        made.extend(keyring.create(["read"])[0].id for _ in range(5))

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(key.id for key in Keyring(tmp_path / "keys").list()) == sorted(made)
    assert len(made) == 40


def test_a_server_accepts_what_another_one_signs_with_a_key_it_has_not_heard_of(tmp_path):
    one = Keyring(tmp_path / "keys")
    other = Keyring(tmp_path / "keys")
    known_before = other.signing_keys()
    one.rotate()
    token = one.signing_keys().sign("main", CONTENT)
    assert known_before.read("main", token) == CONTENT


def test_a_prepared_key_is_accepted_everywhere_before_it_signs(tmp_path):
    keyring = Keyring(tmp_path / "keys")
    first = keyring.signing_keys().sign("main", CONTENT)
    session = keyring.derived_secrets("x")[0]
    keyring.prepare()
    assert keyring.signing_keys().sign("main", CONTENT) == first
    assert keyring.derived_secrets("x")[0] == session
    with pytest.raises(AlreadyExists, match="prepared already"):
        keyring.prepare()
    copy = Keyring(tmp_path / "keys").signing_keys()  # of a machine that copies the file by hand
    keyring.rotate()
    second = keyring.signing_keys().sign("main", CONTENT)
    assert second != first
    assert copy.read("main", second) == CONTENT
    assert keyring.signing_keys().read("main", first) == CONTENT
    keyring.rotate()
    assert refused("main", first, keyring.signing_keys())


def test_tokens_of_others_are_refused():
    """3,000 that are changed, signed with another key, or another tenant's."""
    assert forge(3000) == 0


def test_feedback_for_rounds_that_were_never_played_is_refused_and_teaches_nothing(service):
    """Reports with an invented token, an altered one, and one whose visit has had its reward."""
    service.create("ads", ["a", "b"], policy="ucb1", missing=0)
    token = service.decide("ads").decision
    assert service.reward(token, 1.0) == "accepted"
    before, arms = records(service), service.describe("ads").arms
    altered = token[:-1] + ("A" if token[-1] != "A" else "B")
    for report in ("a", "A" * len(token), altered):
        with pytest.raises(ForeignTicket):
            service.reward(report, 0.0)
    assert records(service) == before
    with pytest.raises(RewardConflict):
        service.reward(token, 0.0)  # the log notes that there was one, and no reward
    assert service.describe("ads").arms == arms
