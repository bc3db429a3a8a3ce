"""What needs the person, by table: every kind, in order, with its words, actions and place."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.protocol.operations.feed import AgentRow, FeedEvent, LinkRow, MailRow, OverviewPage, Pulse, Rows
from tellwire.views.attention import ACTIONS, KINDS, VERBS, Need, attention, hide, need_line, still_hidden
from tellwire.views.model import Model, fold, snapshot
from tellwire.views.signs import ASCII
from tellwire.views.words import width_of
from tests.surfaces.mcp_client import FORGED
from tests.unit.golden_views import check

NOW = 10_000.0


def agent(name: str, **fields: Any) -> AgentRow:
    given: dict[str, Any] = {"kind": "codex", "online": True, "connected_at": NOW - 3_600, **fields}
    return AgentRow(name=name, **given)


def model_of(*, pulses: tuple[Pulse, ...] = (), recent: tuple[FeedEvent, ...] = (), **tables: Any) -> Model:
    tables.setdefault("agents", {"a2": agent("bob", terminal="%3")})
    tables["agents"] = {
        "a1": agent("operator", kind="operator", pending=9, pending_since=1.0),
        **tables["agents"],
    }
    rows = Rows(seq=5, whole=["agents", "mail", "links"], **tables)
    return snapshot(OverviewPage(seq=5, at=NOW, rows=rows, pulses=list(pulses), recent=list(recent)))


def fault(type_: str, *, at: float = NOW - 60, seq: int = 3, **fields: Any) -> FeedEvent:
    return FeedEvent(seq=seq, at=at, type=type_, agent="a2", who="bob", **fields)


def refused(count: int, *, seq: int = 3, at: float = NOW - 60) -> FeedEvent:
    detail = {"operation": "write", "code": "not_yours", "count": count}
    return fault("call_refused", seq=seq, at=at, detail=detail)


def waits(name: str = "bob", **fields: Any) -> dict[str, AgentRow | None]:
    return {"a2": agent(name, pending=2, pending_since=NOW - 121, **fields)}


CASES: dict[str, tuple[Model, Need | None]] = {
    "a question": (
        model_of(
            mail={
                "m4": MailRow(
                    sender="a2", unread=True, asks=True, at=NOW - 240, text="Drop it?", choices=["yes", "no"]
                )
            }
        ),
        Need(
            "question",
            "bob",
            "Drop it?",
            NOW - 240,
            ("answer", "read", "hide"),
            "%3",
            "a2",
            "m4",
            ("yes", "no"),
            "m4",
        ),
    ),
    "a message": (
        model_of(mail={"m4": MailRow(sender="a2", unread=True, at=NOW - 5, text="Done.\nAll of it.")}),
        Need(
            "message",
            "bob",
            "Done. All of it.",
            NOW - 5,
            ("answer", "read", "hide"),
            "%3",
            "a2",
            "m4",
            (),
            "m4",
        ),
    ),
    "a notice of the broker": (
        model_of(mail={"m4": MailRow(sender="", unread=True, at=NOW - 5, text="The disk is full.")}),
        Need("message", "tellwire", "The disk is full.", NOW - 5, ("read", "hide"), id="m4", stamp="m4"),
    ),
    "a client that waits for its human": (
        model_of(pulses=(Pulse(agent="a2", activity="waiting", since=NOW - 9, wants="Bash: rm -rf build"),)),
        Need(
            "waiting",
            "bob",
            "wants: Bash: rm -rf build",
            NOW - 9,
            ("go", "hide"),
            "%3",
            "a2",
            stamp="waiting 9991.0",
        ),
    ),
    "one of which nobody knows what it wants": (
        model_of(agents={"a2": agent("bob")}, pulses=(Pulse(agent="a2", activity="waiting", since=NOW - 9),)),
        Need("waiting", "bob", "waits for its human", NOW - 9, ("hide",), "", "a2", stamp="waiting 9991.0"),
    ),
    "a child that did not come up": (
        model_of(agents={}, recent=(fault("child_failed", detail={"reason": "codex: not found"}),)),
        Need(
            "failed",
            "bob",
            "did not come up: codex: not found",
            NOW - 60,
            ("inside", "hide"),
            "",
            "a2",
            stamp="9940.0 1",
        ),
    ),
    "an agent whose turn failed": (
        model_of(pulses=(Pulse(agent="a2", activity="errored", since=NOW - 9),)),
        Need(
            "errored",
            "bob",
            "its last turn failed",
            NOW - 9,
            ("go", "inside", "hide"),
            "%3",
            "a2",
            stamp="errored 9991.0",
        ),
    ),
    "an agent whose last wake failed": (
        model_of(
            agents=waits(),
            pulses=(
                Pulse(agent="a2", activity="idle", since=NOW - 9, held="the last wake failed", way="typing"),
            ),
        ),
        Need(
            "held",
            "bob",
            "the last wake failed; 2 messages wait",
            NOW - 9,
            ("go", "why", "hide"),
            "",
            "a2",
            stamp="the last wake failed; 2 messages wait",
        ),
    ),
    "mail for one that is muted": (
        model_of(
            agents=waits(muted=True, muted_until=NOW + 600), pulses=(Pulse(agent="a2", activity="idle"),)
        ),
        Need(
            "undelivered",
            "bob",
            "2 messages pending: muted for 10 min more",
            NOW - 121,
            ("unmute", "why", "hide"),
            "",
            "a2",
            stamp="9879.0 2",
        ),
    ),
    "mail for one that no path wakes": (
        model_of(agents=waits(), pulses=(Pulse(agent="a2", activity="idle", shut="typing: no tmux"),)),
        Need(
            "undelivered",
            "bob",
            "2 messages pending: typing: no tmux",
            NOW - 121,
            ("go", "why", "hide"),
            "",
            "a2",
            stamp="9879.0 2",
        ),
    ),
    "mail for one that was woken too often": (
        model_of(agents=waits(), pulses=(Pulse(agent="a2", activity="idle", held="woken too often"),)),
        Need(
            "undelivered",
            "bob",
            "2 messages pending: woken too often",
            NOW - 121,
            ("go", "why", "hide"),
            "",
            "a2",
            stamp="9879.0 2",
        ),
    ),
    "mail for one that is offline": (
        model_of(agents=waits(online=False, gone_at=NOW - 7_200)),
        Need(
            "undelivered",
            "bob",
            "2 messages pending: offline for 2 h",
            NOW - 121,
            ("why", "hide"),
            "",
            "a2",
            stamp="9879.0 2",
        ),
    ),
    "mail that was handed over without evidence": (
        model_of(agents={"a2": agent("bob", delivered=1, delivered_since=NOW - 301)}),
        Need(
            "unproved",
            "bob",
            "1 message handed over, no evidence yet of being read",
            NOW - 301,
            ("go", "why", "hide"),
            "",
            "a2",
            stamp="9699.0",
        ),
    ),
    "a paused link": (
        model_of(
            links={
                "l9": LinkRow(
                    members=["a2", "a7"], status="paused", reason="turns", said=4, paused_at=NOW - 9
                )
            }
        ),
        Need(
            "paused",
            "link:l9",
            "paused: too many turns without a word of yours (bob)",
            NOW - 9,
            ("resume", "read", "hide"),
            id="l9",
            stamp="9991.0 4",
        ),
    ),
    "messages that expired": (
        model_of(recent=(fault("messages_expired", ids=["m1", "m2", "m3", "m4", "m5"]),)),
        Need(
            "expired",
            "bob",
            "m3, m4, m5 and 2 more expired, not read",
            NOW - 60,
            ("why", "hide"),
            "%3",
            "a2",
            stamp="9940.0 5",
        ),
    ),
    "a message that reached nobody": (
        model_of(
            recent=(
                fault("call_refused", detail={"operation": "send_message", "code": "denied", "count": 1}),
            )
        ),
        Need(
            "denied",
            "bob",
            "a message of it reached nobody",
            NOW - 60,
            ("why", "hide"),
            "%3",
            "a2",
            stamp="9940.0 1",
        ),
    ),
    "an agent that is overdue": (
        model_of(agents={"a2": agent("bob", overdue=True)}, recent=(fault("agent_overdue"),)),
        Need(
            "overdue",
            "bob",
            "has finished no turn for long",
            NOW - 60,
            ("go", "inside", "hide"),
            "",
            "a2",
            stamp="9940.0 1",
        ),
    ),
    "writes that were refused": (
        model_of(recent=(refused(1, at=NOW - 90), refused(2, seq=4))),
        Need(
            "refused",
            "bob",
            "3 writes were refused",
            NOW - 90,
            ("scopes", "hide"),
            "%3",
            "a2",
            stamp="9940.0 3",
        ),
    ),
    "an agent of which no hook is heard": (
        model_of(pulses=(Pulse(agent="a2", shut="no hook has run"),)),
        Need("deaf", "bob", "no hook has run", NOW - 3_600, ("doctor", "hide"), "%3", "a2"),
    ),
    # what needs nobody
    "nothing": (model_of(), None),
    "mail that waits for a moment": (
        model_of(
            agents={"a2": agent("bob", pending=1, pending_since=NOW - 119)},
            pulses=(Pulse(agent="a2", activity="idle", shut="no tmux"),),
        ),
        None,
    ),
    "mail for one that is busy": (
        model_of(agents=waits(), pulses=(Pulse(agent="a2", activity="busy", shut="no tmux"),)),
        None,
    ),
    "mail that begins no turn": (
        model_of(
            agents={"a2": agent("bob", pending=3)}, pulses=(Pulse(agent="a2", activity="idle", shut="x"),)
        ),
        None,
    ),
    "mail for one whose muting is over": (
        model_of(agents=waits(muted=True, muted_until=NOW - 1), pulses=(Pulse(agent="a2", activity="idle"),)),
        None,
    ),
    "a hand-over that may still be proved": (
        model_of(agents={"a2": agent("bob", delivered=1, delivered_since=NOW - 299)}),
        None,
    ),
    "two refused writes": (model_of(recent=(refused(2),)), None),
    "refused writes that lie far apart": (
        model_of(recent=(refused(2, at=NOW - 9_000), refused(2, seq=4))),
        None,
    ),
    "faults of yesterday": (
        model_of(recent=(fault("messages_expired", at=NOW - 86_401, ids=["m1"]),)),
        None,
    ),
    "one that was overdue and is not": (model_of(recent=(fault("agent_overdue"),)), None),
    "a notice about a link that is listed": (model_of(links={"l9": LinkRow(members=[])}), None),
    "other refusals": (
        model_of(
            recent=(fault("call_refused", detail={"operation": "list_agents", "code": "x", "count": 9}),)
        ),
        None,
    ),
}


@pytest.mark.requirement("HUM-2", stage="console")
@pytest.mark.parametrize("case", CASES)
def test_what_needs_the_person(case: str) -> None:
    model, need = CASES[case]
    assert attention(model, NOW) == ([] if need is None else [need])


def test_every_kind_has_a_case_its_words_and_actions_that_mean_something() -> None:
    told = {need.kind for _, need in CASES.values() if need is not None} | {"full"}
    assert told == set(KINDS) == set(VERBS)
    assert all(set(need.actions) <= set(ACTIONS) for _, need in CASES.values() if need is not None)


def test_an_agent_whose_share_is_used_up_is_listed_once() -> None:
    mail = {f"m{n}": MailRow(sender="a2", unread=True, at=NOW, text="again") for n in range(50)}
    *messages, full = attention(model_of(mail=mail), NOW)
    assert len(messages) == 50
    assert (full.kind, full.who) == ("full", "bob")
    assert "refused" in full.text


def test_a_paused_link_is_not_told_twice() -> None:
    mail = {"m8": MailRow(sender="", unread=True, at=NOW - 9, text="link:l9 is paused: 40 turns.")}
    links = {"l9": LinkRow(members=["a2"], status="paused", reason="turns", paused_at=NOW - 9)}
    assert [need.kind for need in attention(model_of(mail=mail, links=links), NOW)] == ["paused"]
    assert [need.kind for need in attention(model_of(mail=mail), NOW)] == ["message"]


def test_the_kinds_come_in_order_and_the_oldest_first_within_each() -> None:
    mail = {
        "m4": MailRow(sender="a2", unread=True, at=NOW - 5, text="later"),
        "m5": MailRow(sender="a2", unread=True, asks=True, at=NOW - 6, text="second?"),
        "m6": MailRow(sender="a2", asks=True, at=NOW - 60, text="first?"),
    }
    pulses = (Pulse(agent="a2", activity="waiting", since=NOW - 3_000),)
    needs = attention(model_of(mail=mail, pulses=pulses), NOW)
    assert [need.text for need in needs] == ["first?", "second?", "later", "waits for its human"]


# -- hiding -----------------------------------------------------------------------------------------------


def test_what_is_hidden_stays_so_until_something_new_happens_to_it() -> None:
    pulse = Pulse(agent="a2", activity="waiting", since=NOW - 9, wants="a")
    model = model_of(pulses=(pulse,))
    (need,) = attention(model, NOW)
    hidden = hide({}, need)
    assert attention(model, NOW, hidden=hidden) == []
    assert attention(model, NOW + 100_000, hidden=hidden) == []
    fold(model, Pulse(agent="a2", activity="waiting", since=NOW, wants="b"))
    assert [each.text for each in attention(model, NOW, hidden=hidden)] == ["wants: b"]


def test_a_need_that_was_over_meanwhile_is_no_longer_hidden() -> None:
    model = model_of(pulses=(Pulse(agent="a2", activity="errored", since=NOW - 9),))
    hidden = hide({}, attention(model, NOW)[0])
    assert still_hidden(hidden, model, NOW) == hidden
    fold(model, Pulse(agent="a2", activity="busy", since=NOW))
    assert still_hidden(hidden, model, NOW) == {}


def test_more_mail_brings_a_hidden_need_back() -> None:
    model = model_of(agents=waits(), pulses=(Pulse(agent="a2", activity="idle", shut="no tmux"),))
    hidden = hide({}, attention(model, NOW)[0])
    fold(model, Rows(seq=6, agents={"a2": agent("bob", pending=3, pending_since=NOW - 121)}))
    assert [need.kind for need in attention(model, NOW, hidden=hidden)] == ["undelivered"]


# -- lines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 80, 120])
def test_needs_in_lines_fit_the_width(width: int) -> None:
    for model, _ in CASES.values():
        for need in attention(model, NOW):
            for signs in (None, ASCII):
                line = need_line(need, NOW, width=width, **({} if signs is None else {"signs": signs}))
                assert width_of(line) == width
                assert signs is None or line.isascii()


@pytest.mark.requirement("HUM-6", stage="console")
def test_what_an_agent_says_stays_text_in_a_need() -> None:
    mail = {"m4": MailRow(sender="a2", asks=True, at=NOW, text=FORGED, choices=["\x1b[31mred", "\u202eno"])}
    model = model_of(
        agents={"a2": agent(FORGED[:60])},
        mail=mail,
        pulses=(Pulse(agent="a2", activity="waiting", wants=FORGED),),
    )
    for need in attention(model, NOW):
        for text in (need.who, need.text, need.place, *need.choices, need_line(need, NOW, width=120)):
            assert "\x1b" not in text
            assert "\n" not in text
            assert "\u202e" not in text


def test_the_lines_of_all_needs_are_those_on_file() -> None:
    needs = [need for _, need in CASES.values() if need is not None]
    check("needs", lambda width, signs: [need_line(need, NOW, width=width, signs=signs) for need in needs])
