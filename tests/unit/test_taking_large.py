"""How much one fetch takes along: its bounds, what is too large for it, and large messages page by page."""

from __future__ import annotations

import pytest

from tellwire.core.limits import Limits
from tellwire.core.mail.fetching import LARGE_MAX
from tellwire.core.mail.framing import page_chars, render_large_notice, render_page
from tellwire.protocol.events import MessagesDelivered
from tellwire.protocol.operations.messages import Taken
from tests.unit.fetching import Fetching, bodies, ids
from tests.unit.mesh import refused

CHARS = 1_000
LARGE = "x" * 2_000


@pytest.fixture
def mesh() -> Fetching:
    return Fetching(Limits(take_chars_max=CHARS))


# -- bounds -------------------------------------------------------------------------------------------


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"limit": 0}, "limit_exceeded"),
        ({"limit": -1}, "limit_exceeded"),
        ({"limit": 201}, "limit_exceeded"),
        ({"chars": -1}, "limit_exceeded"),
        ({"chars": CHARS + 1}, "limit_exceeded"),
        ({"offset": -1}, "bad_request"),
        ({"offset": 1}, "bad_request"),
        ({"call": "c" * 129}, "limit_exceeded"),
        ({"id": "nonsense"}, "unknown_message"),
        ({"id": "m7777"}, "unknown_message"),
        ({"id": ""}, "unknown_message"),
    ],
)
def test_a_fetch_beyond_its_bounds_is_refused_and_takes_nothing(
    mesh: Fetching, fields: dict[str, object], code: str
) -> None:
    mesh.mail("a")
    with refused(code):
        mesh.take("bob", **fields)  # pyright: ignore[reportArgumentType]  # wrong values are the point
    assert len(mesh.pending("bob")) == 1


@pytest.mark.requirement("SEC-3")
def test_a_fetch_at_its_very_bounds_is_none_too_much(mesh: Fetching) -> None:
    mesh.mail("a")
    assert bodies(mesh.take("bob", "c" * 128, limit=200, chars=CHARS)) == ["a"]


@pytest.mark.requirement("REC-4", stage="mcp")
def test_as_many_come_as_asked_for_and_the_rest_is_told(mesh: Fetching) -> None:
    mesh.mail(*"abcde")
    for call, expected, waiting in (("1", ["a", "b"], 3), ("2", ["c", "d"], 1), ("3", ["e"], 0)):
        taken = mesh.take("bob", call, limit=2)
        assert (bodies(taken), taken.waiting) == (expected, waiting)
        mesh.note("bob", call)


@pytest.mark.requirement("REC-4", stage="mcp")
def test_as_much_text_comes_as_fits_and_the_rest_is_told(mesh: Fetching) -> None:
    messages = mesh.mail(*("y" * 200 for _ in range(5)))
    two = mesh.size(messages[0]) + mesh.size(messages[1])
    taken = mesh.take("bob", "1", chars=two)
    assert (ids(taken), taken.large, taken.waiting) == (messages[:2], [], 3)
    mesh.note("bob", "1")
    taken = mesh.take("bob", "2", chars=two - 1)
    assert (ids(taken), taken.large, taken.waiting) == (messages[2:3], [], 2)


def test_a_context_and_a_value_count_with_the_text(mesh: Fetching) -> None:
    messages = mesh.mail({"a": "y" * 300}, context=["c" * 300])
    size = mesh.size(messages[0])
    assert size > 600
    taken = mesh.take("bob", "1", chars=size - 1)
    assert [record.body for record in taken.large] == [size]
    assert bodies(mesh.take("bob", "2", chars=size)) == [{"a": "y" * 300}]


def test_text_is_counted_in_characters_not_in_bytes(mesh: Fetching) -> None:
    messages = mesh.mail("ä" * 700, "\U0001f600" * 800, "€" * 200)
    for call, message in enumerate(messages):
        taken = mesh.take("bob", str(call))
        assert (ids(taken), taken.large) == ([message], [])
        mesh.note("bob", str(call))


@pytest.mark.requirement("SEC-3")
def test_the_window_bounds_what_is_on_leases() -> None:
    mesh = Fetching(Limits(window_messages_max=3))
    mesh.mail("a", "b")
    mesh.mail(*"cdef", sender="carol")
    mesh.take("bob", "1", limit=2)
    taken = mesh.take("bob", "2")
    assert (bodies(taken), taken.waiting) == (["c"], 3)
    mesh.mail("other", sender="alice")
    full = mesh.take("bob", "3")
    assert (full.messages, full.large, full.waiting) == ([], [], 4)
    mesh.note("bob", "2")
    assert bodies(mesh.take("bob", "4")) == ["d"]


@pytest.mark.requirement("SEC-3")
def test_no_more_is_loaded_than_could_fit(mesh: Fetching) -> None:
    mesh.mail(*("y" * 500 for _ in range(30)))
    mesh.mail(*(LARGE for _ in range(30)), sender="carol")
    mesh.loaded.clear()
    mesh.take("bob", "1", limit=200)
    assert max(mesh.loaded) <= 4 * CHARS // 500 + LARGE_MAX


def test_what_is_loaded_is_counted_exactly(mesh: Fetching) -> None:
    mesh.mail(*("y" * CHARS for _ in range(8)))
    mesh.loaded.clear()
    mesh.take("bob", "1")
    mesh.take("bob", "2", limit=2)
    assert mesh.loaded == [4, 2]


# -- what does not fit --------------------------------------------------------------------------------


@pytest.mark.requirement("REC-4", stage="mcp")
def test_what_is_too_large_is_announced_stays_and_holds_up_its_own_sender_only(mesh: Fetching) -> None:
    large, *later = mesh.mail(LARGE, "a2", "a3", context={"k": 1})
    mesh.mail("c1", "c2", sender="carol")
    taken = mesh.take("bob", "1")
    assert (bodies(taken), taken.waiting) == (["c1", "c2"], 3)
    (told,) = taken.large
    assert (told.id, told.sender, told.body, told.context) == (large, "alice", mesh.size(large), None)
    assert mesh.pending("bob") == [large, *later]
    assert [record.id for record in mesh.take("bob", "2").large] == [large], "it is told again"


def test_an_announcement_takes_its_share_of_the_text(mesh: Fetching) -> None:
    (large,) = mesh.mail(LARGE)
    (small,) = mesh.mail("c" * 300, sender="carol")
    line = len(render_large_notice(mesh.record(large), now=mesh.now, size=mesh.size(large)))
    chars = mesh.size(small) + line
    assert bodies(mesh.take("bob", "1", chars=chars)) == ["c" * 300]
    mesh.give_back("bob", "1")
    short = mesh.take("bob", "2", chars=chars - 1)
    assert (short.messages, [record.id for record in short.large]) == ([], [large, small])


def test_what_does_not_fit_this_call_is_announced(mesh: Fetching) -> None:
    (message,) = mesh.mail("y" * 500)
    taken = mesh.take("bob", "1", chars=200)
    assert (taken.messages, [record.id for record in taken.large], taken.waiting) == ([], [message], 1)
    assert bodies(mesh.take("bob", "2")) == ["y" * 500], "another call has the room"


def test_what_fits_a_call_of_its_own_waits_and_lets_smaller_ones_of_others_by(mesh: Fetching) -> None:
    mesh.mail("y" * 500)
    second, _ = mesh.mail("c" * 500, "c2", sender="carol")
    mesh.register("dave")
    (small,) = mesh.mail("d", sender="dave")
    taken = mesh.take("bob", "1")
    assert (bodies(taken), taken.large) == (["y" * 500, "d"], [])
    assert small not in mesh.pending("bob")
    assert ids(mesh.take("bob", "2"))[0] == second


def test_what_just_fits_a_call_of_its_own_is_not_large(mesh: Fetching) -> None:
    mesh.mail("a")
    (message,) = mesh.mail("c" * 500, sender="carol")
    exact = mesh.size(message)
    taken = mesh.take("bob", "1", chars=exact)
    assert (bodies(taken), taken.large, taken.waiting) == (["a"], [], 1)
    assert ids(mesh.take("bob", "2", chars=exact)) == [message]


def test_one_large_message_is_announced_however_full_the_text_is(mesh: Fetching) -> None:
    (small,) = mesh.mail("a")
    (large,) = mesh.mail(LARGE, sender="carol")
    taken = mesh.take("bob", "1", chars=mesh.size(small))
    assert (ids(taken), [record.id for record in taken.large]) == ([small], [large])


def test_announcements_stop_where_the_text_is_full(mesh: Fetching) -> None:
    sent: list[str] = []
    for number in range(6):
        mesh.register(f"agent{number}")
        sent += mesh.mail("d" * 300, sender=f"agent{number}")
    line = len(render_large_notice(mesh.record(sent[0]), now=mesh.now, size=mesh.size(sent[0])))
    for chars, count in ((1, 1), (line, 1), (line + 1, 2), (2 * line, 2), (2 * line + 1, 3)):
        taken = mesh.take("bob", str(chars), chars=chars)
        assert ([record.id for record in taken.large], taken.waiting) == (sent[:count], 6)


def test_large_ones_of_one_sender_do_not_keep_others_waiting(mesh: Fetching) -> None:
    first, *_ = mesh.mail(*([LARGE] * (LARGE_MAX + 2)), *(["small"] * 60))
    mesh.mail("c", sender="carol")
    taken = mesh.take("bob", "1")
    assert (bodies(taken), [record.id for record in taken.large]) == (["c"], [first])


@pytest.mark.parametrize("behind", [0, 3])
def test_a_large_one_takes_no_place_of_those_asked_for(mesh: Fetching, behind: int) -> None:
    mesh.mail(LARGE, *(["small"] * behind))
    mesh.mail("c1", "c2", sender="carol")
    assert bodies(mesh.take("bob", "1", limit=1)) == ["c1"]


@pytest.mark.parametrize("limit", [1, 2])
def test_what_only_looked_large_does_not_come_beyond_the_number_asked_for(mesh: Fetching, limit: int) -> None:
    """By its bytes it is too large, by its characters it is not."""
    for number in range(3):
        mesh.register(f"agent{number}")
        mesh.mail("\U0001f600" * 251, sender=f"agent{number}")
    assert len(mesh.take("bob", "1", limit=limit).messages) == limit


@pytest.mark.requirement("SEC-3", "NET-6")
def test_announcements_in_one_answer_are_bounded_and_the_rest_is_told_by_number(mesh: Fetching) -> None:
    sent: list[str] = []
    for number in range(LARGE_MAX + 3):
        mesh.register(f"agent{number}")
        sent += mesh.mail(LARGE, sender=f"agent{number}")
    taken = mesh.take("bob", "1")
    assert ([record.id for record in taken.large], taken.waiting) == (sent[:LARGE_MAX], len(sent))


# -- pages --------------------------------------------------------------------------------------------


def pages(mesh: Fetching, message: str, chars: int) -> list[Taken]:
    """Read a message from end to end."""
    taken = [mesh.take("bob", "0", id=message, chars=chars)]
    while taken[-1].next_offset:
        assert message in mesh.pending("bob"), "leased before its last part was asked for"
        offset = taken[-1].next_offset
        taken.append(mesh.take("bob", str(offset), id=message, offset=offset, chars=chars))
        assert len(taken) < 100
    return taken


@pytest.mark.requirement("REC-4", stage="mcp")
def test_a_large_message_is_read_part_by_part_and_leased_with_its_last_part(mesh: Fetching) -> None:
    text = "".join(f"line {number}\n" for number in range(200))
    message, later = mesh.mail(text, "later")
    told = pages(mesh, message, 300)
    assert [reply.next_offset for reply in told] == [300, 600, 900, 1200, 1500, 0]
    assert [reply.waiting for reply in told] == [2] * 5 + [1]
    assert {reply.messages[0].body for reply in told} == {text}
    offsets = [0, *(reply.next_offset for reply in told[:-1])]
    record = mesh.record(message)
    shown = [render_page(record, now=mesh.now, offset=offset, chars=300)[0] for offset in offsets]
    assert "".join(page.split("\n", 1)[1].removesuffix("\n</peer-message>") for page in shown) == text
    assert (mesh.leased("bob"), mesh.pending("bob")) == ([message], [later])
    assert len(mesh.of_type(MessagesDelivered)) == 1
    mesh.note("bob", "0", "300")
    assert mesh.states(message) == {"bob": "delivered"}, "of the parts before the last there is no lease"
    mesh.note("bob", "1500")
    assert mesh.states(message) == {"bob": "read"}
    assert bodies(mesh.take("bob", "next")) == ["later"]


def test_a_part_asked_for_again_is_given_again_and_leased_once(mesh: Fetching) -> None:
    (message,) = mesh.mail(LARGE)
    pages(mesh, message, 700)
    count = len(mesh.events)
    for call in ("1400", "other"):
        again = mesh.take("bob", call, id=message, offset=1400, chars=700)
        assert (bodies(again), again.next_offset, again.waiting) == ([LARGE], 0, 0)
    assert mesh.take("bob", "first", id=message, chars=700).next_offset == 700
    assert len(mesh.events) == count
    mesh.give_back("bob", "other")
    assert mesh.leased("bob") == [message]
    mesh.give_back("bob", "1400")
    assert mesh.pending("bob") == [message]


def test_a_small_message_may_be_fetched_by_its_id(mesh: Fetching) -> None:
    first, second = mesh.mail("a", "b")
    taken = mesh.take("bob", "1", id=second)
    assert (ids(taken), taken.next_offset, taken.waiting) == ([second], 0, 1)
    assert (mesh.leased("bob"), mesh.pending("bob")) == ([second], [first])
    mesh.note("bob", "1")
    with refused("unknown_message"):
        mesh.take("bob", "2", id=second)


def test_a_message_of_one_sign_has_one_page(mesh: Fetching) -> None:
    (message,) = mesh.mail("x")
    assert (ids(mesh.take("bob", "1", id=message)), mesh.leased("bob")) == ([message], [message])


@pytest.mark.parametrize("offset", [3, 4, 10**9])
def test_an_offset_beyond_the_end_leases_nothing(mesh: Fetching, offset: int) -> None:
    (message,) = mesh.mail("abc")
    with refused("bad_request"):
        mesh.take("bob", "1", id=message, offset=offset)
    assert mesh.pending("bob") == [message]
    assert mesh.take("bob", "1", id=message, offset=2).next_offset == 0
    assert mesh.leased("bob") == [message]


def test_the_mail_of_others_cannot_be_paged(mesh: Fetching) -> None:
    message = mesh.send("bob", "carol", LARGE).id
    for name in ("alice", "bob"):
        with refused("unknown_message"):
            mesh.take(name, "1", id=message)


# -- pages counted in bytes ---------------------------------------------------------------------------


def _pages(body: str, room: int) -> list[str]:
    """The pages of a message, as a client that cuts results by their bytes reads them."""
    mesh = Fetching(Limits(take_chars_max=room))
    (message,) = mesh.mail(body)
    pages: list[str] = []
    offset = 0
    while True:
        taken = mesh.take("bob", str(len(pages)), id=message, offset=offset, in_bytes=True, chars=room)
        chars = page_chars(taken.messages[0], room, offset=offset, in_bytes=True)
        text, offset, _ = render_page(taken.messages[0], now=0.0, offset=offset, chars=chars)
        pages.append(text.split(">\n", 1)[1].removesuffix("\n</peer-message>"))
        if not offset:
            return pages


@pytest.mark.requirement("REC-4", stage="mcp")
@pytest.mark.parametrize(
    "body", ["x" * 59_998 + "ä", "ä" * 30_000, "\U0001f600" * 15_000, "x" * 30_000 + "€" * 10_000]
)
def test_a_body_takes_as_many_pages_as_its_bytes_need_whatever_its_characters(body: str) -> None:
    plain = _pages("x" * 60_000, 8_500)
    pages = _pages(body, 8_500)
    assert "".join(pages) == body
    assert max(len(page.encode()) for page in pages) <= 8_500
    assert len(pages) <= 1.2 * len(plain)
