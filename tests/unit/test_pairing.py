"""The three messages of pairing: who may read and make them, and what each side refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tellwire.federation.pairing import (
    Guest,
    Host,
    check_labels,
    format_invite,
    make_invite,
    parse_invite,
)
from tellwire.federation.seal import Keyring, read_card
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.machines import Trust

KEY = bytes(range(32))


@pytest.fixture
def laptop(tmp_path: Path) -> Keyring:
    return made(tmp_path, "laptop")


@pytest.fixture
def desk(tmp_path: Path) -> Keyring:
    return made(tmp_path, "desk")


def made(folder: Path, name: str) -> Keyring:
    (folder / name).mkdir()
    return Keyring.create(folder / name, computer="here")


@pytest.mark.parametrize("key", [b"", KEY])
def test_both_sides_end_with_each_others_card(laptop: Keyring, desk: Keyring, key: bytes) -> None:
    host = Host(laptop.card("laptop"), key=key)
    guest = Guest(desk.card("desk"), key=key, host=laptop.id)
    assert guest.take(host.offer()) is None
    assert guest.partner is not None
    assert (guest.partner.card.id, guest.partner.words) == (laptop.id, laptop.words)
    partner = host.take(guest.join())
    assert partner is not None
    assert (partner.card.id, partner.card.label, partner.trust) == (desk.id, "desk", "own")
    answer = guest.take(host.accept(agents=4))
    assert answer is not None
    assert answer.agents == 4


@pytest.mark.parametrize(
    ("asked", "wanted", "given"), [("own", "own", "own"), ("own", "team", "team"), ("team", "own", "team")]
)
def test_trust_can_be_lowered_by_either_side_and_raised_by_none(
    laptop: Keyring, desk: Keyring, asked: Trust, wanted: Trust, given: str
) -> None:
    host, guest = Host(laptop.card("laptop"), trust=asked), Guest(desk.card("desk"), trust=wanted)
    guest.take(host.offer())
    partner = host.take(guest.join())
    assert partner is not None
    assert guest.partner is not None
    assert (partner.trust, guest.partner.trust) == (given, given)


@pytest.mark.requirement("FED-2")
def test_who_has_not_got_the_invite_can_neither_read_nor_make_a_message(
    laptop: Keyring, desk: Keyring
) -> None:
    host = Host(laptop.card("laptop"), key=KEY)
    stranger = Guest(desk.card("desk"), key=bytes(32))
    stranger.take(host.offer())
    assert stranger.partner is None
    assert host.take(stranger.join()) is None
    guest = Guest(desk.card("desk"), key=KEY)
    guest.take(host.offer())
    join = guest.join()
    for at in range(len(join)):
        changed = bytearray(join)
        changed[at] ^= 1
        assert host.take(bytes(changed)) is None
    assert host.take(host.offer()) is None, "a reflected offer is no join"
    assert guest.take(join) is None, "a reflected join is no answer"


def test_a_join_counts_for_its_offer_only(laptop: Keyring, desk: Keyring) -> None:
    first, second = Host(laptop.card("laptop"), key=KEY), Host(laptop.card("laptop"), trust="team", key=KEY)
    guest = Guest(desk.card("desk"), key=KEY)
    guest.take(first.offer())
    assert second.take(guest.join()) is None


def test_a_guest_that_comes_second_hears_that_the_invite_is_used(
    laptop: Keyring, desk: Keyring, tmp_path: Path
) -> None:
    host = Host(laptop.card("laptop"), key=KEY)
    thief, real = Guest(made(tmp_path, "thief").card("desk"), key=KEY), Guest(desk.card("desk"), key=KEY)
    for each in (thief, real):
        each.take(host.offer())
    assert host.take(thief.join()) is not None
    with pytest.raises(TellwireError) as used:
        real.take(host.accept())
    assert used.value.code == "invite_used"


def test_a_refusal_reaches_the_one_that_was_refused_and_the_offer_stays_open(
    laptop: Keyring, desk: Keyring, tmp_path: Path
) -> None:
    host = Host(laptop.card("laptop"), key=KEY)
    first, second = Guest(desk.card("desk"), key=KEY), Guest(made(tmp_path, "third").card("x"), key=KEY)
    for each in (first, second):
        each.take(host.offer())
    assert host.take(first.join()) is not None
    refusal = host.refuse(TellwireError("label_taken", "Another machine is called desk there."))
    assert second.take(refusal) is None, "it was not meant"
    with pytest.raises(TellwireError) as refused:
        first.take(refusal)
    assert refused.value.code == "label_taken"
    assert host.take(second.join()) is not None


def test_an_offer_of_another_machine_than_the_invites_is_refused(laptop: Keyring, desk: Keyring) -> None:
    guest = Guest(desk.card("desk"), key=KEY, host=desk.id)
    with pytest.raises(TellwireError) as refused:
        guest.take(Host(laptop.card("laptop"), key=KEY).offer())
    assert refused.value.code == "invite_invalid"


def test_a_machine_is_not_paired_with_itself(laptop: Keyring) -> None:
    host, guest = Host(laptop.card("laptop")), Guest(laptop.card("laptop"))
    with pytest.raises(TellwireError, match="itself"):
        guest.take(host.offer())


def test_an_invite_survives_being_handed_over_and_a_mistyped_one_does_not(laptop: Keyring) -> None:
    url = "rediss://tellwire:pass@redis.example:6379/0"
    invite = make_invite(bytes(range(16)), host=laptop.id, carrier=url, trust="own")
    text = format_invite(invite)
    wrapped = f"  {text[:40]}\n{text[40:].upper()} "
    found = parse_invite(wrapped)
    assert (found, found.machine, found.carrier) == (invite, laptop.id, url)
    assert "pass" not in invite.stream
    changed = [
        text[:at] + ("b" if text[at] != "b" else "c") + text[at + 1 :] for at in range(12, len(text) - 1)
    ]
    cut = ["", "tellwire1.", "tellwire2." + text[10:], text[:-1], "tellwire1." + "a" * 5_000]
    for bad in (*changed, *cut):
        with pytest.raises(TellwireError) as refused:
            parse_invite(bad)
        assert refused.value.code == "invite_invalid", bad


def test_a_label_that_is_taken_is_refused_with_one_that_is_free(laptop: Keyring, desk: Keyring) -> None:
    card = read_card(desk.card("desk"))
    assert check_labels(card, label="", taken={}, whose="here") == "desk"
    assert check_labels(card, label="", taken={"desk": desk.id}, whose="here") == "desk", "it is its own"
    taken = {"desk": laptop.id, "desk-2": laptop.id}
    with pytest.raises(TellwireError) as refused:
        check_labels(card, label="Desk", taken=taken, whose="here")
    assert refused.value.code == "label_taken"
    assert "--as Desk-3" in refused.value.advice
    with pytest.raises(TellwireError) as there:
        check_labels(card, label="", taken=taken, whose="there")
    assert "--me desk-3" in there.value.advice
    with pytest.raises(TellwireError):
        check_labels(card, label="not a label", taken={}, whose="here")
