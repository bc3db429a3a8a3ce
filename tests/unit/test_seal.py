"""Keys of a machine: what a blob and a card survive, and what they do not."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import pytest

from tellwire.federation.seal import (
    BLOB_BYTES_MAX,
    BOX,
    CARD,
    KEY_FILE,
    REMOVE,
    Keyring,
    SealError,
    check_signed,
    fingerprint,
    padded_size,
    read_card,
)
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.machines import machine_id


def ring(folder: Path, name: str) -> Keyring:
    home = folder / name
    home.mkdir()
    return Keyring.create(home, computer="here")


def again(keys: Keyring, folder: Path, name: str) -> Keyring:
    """The same keys in the next life of their broker."""
    found = Keyring.load(folder / name, here=keys.id, computer="here")
    assert found is not None
    return found


def acquaint(one: Keyring, other: Keyring) -> None:
    first, second = read_card(one.card("laptop")), read_card(other.card("desk"))
    one.learn(second.id, second.sign_key, second.boxes)
    other.learn(first.id, first.sign_key, first.boxes)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Keyring, Keyring]:
    one, other = ring(tmp_path, "laptop"), ring(tmp_path, "desk")
    acquaint(one, other)
    return one, other


@pytest.mark.requirement("FED-2")
def test_a_blob_opens_for_the_machine_it_was_sealed_for_and_tells_who_sealed_it(
    pair: tuple[Keyring, Keyring], tmp_path: Path
) -> None:
    one, other = pair
    blob = one.seal(other.id, b"hello")
    assert other.open(blob) == (one.id, b"hello")
    assert one.open(blob) is None, "a reflected blob"
    third = ring(tmp_path, "third")
    acquaint(one, third)
    assert third.open(blob) is None
    assert third.refused == {"key": 1}


@pytest.mark.requirement("FED-2")
def test_a_blob_with_any_byte_changed_does_not_open(pair: tuple[Keyring, Keyring]) -> None:
    one, other = pair
    blob = one.seal(other.id, b"hello")
    for at in range(len(blob)):
        changed = bytearray(blob)
        changed[at] ^= 1
        assert other.open(bytes(changed)) is None, at
    for size in range(len(blob)):
        assert other.open(blob[:size]) is None, size
    assert other.open(blob + b"\0") is None
    assert other.open(os.urandom(BLOB_BYTES_MAX + 1)) is None
    assert other.refused.total() == 2 * len(blob) + 2
    assert other.open(blob) == (one.id, b"hello"), "the whole one opens still"


@pytest.mark.requirement("FED-2")
def test_a_blob_shows_neither_names_nor_text_nor_exact_sizes(pair: tuple[Keyring, Keyring]) -> None:
    one, other = pair
    blobs = [one.seal(other.id, b"x" * size) for size in range(1_000, 1_020)]
    assert len({len(blob) for blob in blobs}) <= 2
    assert all(one.id.encode() not in blob and other.id.encode() not in blob for blob in blobs)
    assert len({blob[9:33] for blob in blobs}) == len(blobs), "no nonce is used twice"
    for size in (1, 64, 100, 1_000, 65_536, 200_000):
        assert size <= padded_size(size) <= max(64, size * 1.12)


def test_what_is_too_large_for_a_blob_is_refused(pair: tuple[Keyring, Keyring]) -> None:
    one, other = pair
    with pytest.raises(TellwireError, match="too many"):
        one.seal(other.id, bytes(BLOB_BYTES_MAX))


@pytest.mark.requirement("FED-4")
def test_nothing_of_a_forgotten_machine_opens_and_nothing_is_sealed_for_it(
    pair: tuple[Keyring, Keyring], tmp_path: Path
) -> None:
    one, other = pair
    blob = other.seal(one.id, b"hello")
    one.forget(other.id)
    assert one.open(blob) is None
    with pytest.raises(TellwireError) as refused:
        one.seal(other.id, b"hello")
    assert refused.value.code == "not_paired"
    assert again(one, tmp_path, "laptop").open(blob) is None


# -- session keys ---------------------------------------------------------------------------------------


def talk(one: Keyring, other: Keyring) -> None:
    assert other.open(one.seal(other.id, b"ping")) == (one.id, b"ping")
    assert one.open(other.seal(one.id, b"pong")) == (other.id, b"pong")


@pytest.mark.requirement("FED-2")
def test_session_keys_rotate_and_the_old_ones_are_gone(pair: tuple[Keyring, Keyring], tmp_path: Path) -> None:
    one, other = pair
    old = other.seal(one.id, b"recorded by the carrier")
    for _ in range(5):
        one.rotate()
        other.rotate()
        for _ in range(3):
            talk(one, other)
    assert one.open(old) is None, "who steals the keys now cannot read it"
    file = msgspec.json.decode((tmp_path / "laptop" / KEY_FILE).read_bytes())
    assert len(file["secrets"]) == 3


def test_a_machine_that_missed_every_rotation_is_not_locked_out(
    pair: tuple[Keyring, Keyring], tmp_path: Path
) -> None:
    one, other = pair
    late = other.seal(one.id, b"sealed long ago")
    for _ in range(20):
        one.rotate()
        one = again(one, tmp_path, "laptop")
    assert one.open(late) == (other.id, b"sealed long ago")
    talk(one, other)
    talk(one, other)
    assert one.open(late) is None, "it knows a newer key now"


def test_blobs_that_were_on_the_way_while_keys_changed_open(pair: tuple[Keyring, Keyring]) -> None:
    one, other = pair
    on_the_way = [other.seal(one.id, b"first")]
    one.rotate()
    on_the_way.append(other.seal(one.id, b"second"))
    talk(one, other)
    on_the_way.append(other.seal(one.id, b"third"))
    assert [one.open(blob) for blob in on_the_way] == [
        (other.id, word) for word in (b"first", b"second", b"third")
    ]


def test_an_old_announcement_that_comes_again_changes_nothing(pair: tuple[Keyring, Keyring]) -> None:
    one, other = pair
    one.rotate()
    replayed = one.seal(other.id, b"announces the first key")
    talk(one, other)
    one.rotate()
    talk(one, other)
    other.open(replayed)
    talk(one, other)


def test_machines_understand_each_other_after_either_key_file_was_put_back(
    pair: tuple[Keyring, Keyring], tmp_path: Path
) -> None:
    one, other = pair
    backup = (tmp_path / "laptop" / KEY_FILE).read_bytes()
    one.rotate()
    talk(one, other)
    talk(one, other)
    (tmp_path / "laptop" / KEY_FILE).write_bytes(backup)
    one = again(one, tmp_path, "laptop")
    assert other.open(one.seal(other.id, b"back")) == (one.id, b"back")
    talk(one, other)


# -- identity -------------------------------------------------------------------------------------------


def test_the_key_file_is_its_owners_alone(pair: tuple[Keyring, Keyring], tmp_path: Path) -> None:
    mode = (tmp_path / "laptop" / KEY_FILE).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_an_identity_stays_through_restarts(pair: tuple[Keyring, Keyring], tmp_path: Path) -> None:
    one, other = pair
    later = again(one, tmp_path, "laptop")
    assert (later.id, later.words) == (one.id, one.words)
    talk(later, other)


@pytest.mark.parametrize("case", ["copied", "computer", "journal", "gone", "damaged"])
def test_a_copied_home_does_not_make_a_second_identity(
    pair: tuple[Keyring, Keyring], tmp_path: Path, case: str
) -> None:
    one, other = pair
    home, computer, here = tmp_path / "laptop", "here", one.id
    if case == "copied":
        home = tmp_path / "copy"
        home.mkdir()
        (home / KEY_FILE).write_bytes((tmp_path / "laptop" / KEY_FILE).read_bytes())
    elif case == "computer":
        computer = "another"
    elif case == "journal":
        here = other.id
    elif case == "gone":
        (home / KEY_FILE).unlink()
    else:
        (home / KEY_FILE).write_bytes(b'{"version":1,"seed":"AAAA"}')
    with pytest.raises(TellwireError) as refused:
        Keyring.load(home, here=here, computer=computer)
    assert refused.value.code == "identity_copied"
    assert "machine renew" in refused.value.advice


def test_a_home_that_was_moved_keeps_its_identity_if_its_owner_says_so(
    pair: tuple[Keyring, Keyring], tmp_path: Path
) -> None:
    one, other = pair
    (tmp_path / "laptop").rename(tmp_path / "moved")
    moved = Keyring.move(tmp_path / "moved", computer="another")
    assert moved.id == one.id
    talk(moved, other)
    assert Keyring.load(tmp_path / "moved", here=one.id, computer="another") is not None


def test_a_home_without_keys_has_none(tmp_path: Path) -> None:
    assert Keyring.load(tmp_path) is None


# -- signatures -----------------------------------------------------------------------------------------


def test_a_card_with_any_byte_changed_is_refused(tmp_path: Path) -> None:
    card = ring(tmp_path, "laptop").card("laptop", version="0.1.0")
    for at in range(len(card)):
        changed = bytearray(card)
        changed[at] ^= 1
        with pytest.raises(SealError):
            read_card(bytes(changed))
    found = read_card(card)
    assert (found.label, found.version, found.id) == ("laptop", "0.1.0", machine_id(found.sign_key))


def test_a_signature_for_one_purpose_is_none_for_another(tmp_path: Path) -> None:
    keys = ring(tmp_path, "laptop")
    signed = keys.sign(REMOVE, b"kxyz")
    assert check_signed(keys.sign_key, REMOVE, signed) == b"kxyz"
    for domain in (CARD, BOX):
        with pytest.raises(SealError):
            check_signed(keys.sign_key, domain, signed)
    with pytest.raises(SealError):
        check_signed(ring(tmp_path, "desk").sign_key, REMOVE, signed)


def test_a_fingerprint_is_six_words_and_differs_for_each_key() -> None:
    told = {fingerprint(bytes([number]) * 32) for number in range(64)}
    assert len(told) == 64
    assert all(len(words.split()) == 6 for words in told)
