"""Names of decisions cannot be forged, and keys open what they are made for."""

from __future__ import annotations

import random
import stat

import pytest

from armrace.errors import DamagedFile, ForeignTicket, InvalidParameter, UnknownName
from armrace.service.keyring import Keyring
from armrace.service.tokens import SigningKeys, TokenContent
from torture.forgeries import forge

CONTENT = TokenContent(experiment=3, sequence=12345, place=2, closes=1_700_000_000_000)
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
    key, text = keyring.create(["decide", "reward"], tenant="shop")
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
    assert not other.has_keys
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


def test_tokens_of_others_are_refused():
    """3,000 that are changed, signed with another key, or another tenant's."""
    assert forge(3000) == 0
