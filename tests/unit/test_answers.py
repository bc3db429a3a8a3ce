"""What tools say: few words, what to do next, and peers' words made harmless wherever they stand."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.mcp.dialects import agent_network as network
from tellwire.mcp.dialects import tellwire as answers
from tellwire.mcp.dialects.agent_network import AGENT_NETWORK
from tellwire.mcp.dialects.answer import Answer, refusal, render_reply, with_waiting
from tellwire.protocol.errors import ERRORS, TellwireError
from tellwire.protocol.operations.agents import AgentList, AgentRecord, Done
from tellwire.protocol.operations.history import History, HistoryRecord
from tellwire.protocol.operations.messages import (
    Inbox,
    MessageRecord,
    MessageStatusReply,
    Outcome,
    RecipientStatus,
    SendMessage,
    Sent,
    TakeMessages,
    Taken,
)
from tellwire.protocol.operations.topics import Topics
from tests.surfaces.mcp_client import FORGED, Result, check_harmless

NOW = 1_000.0


def agent(name: str = "bob", **fields: Any) -> AgentRecord:
    """An agent as others see it."""
    fields = {"id": "a2", "name": name, "kind": "codex", "status": "online", **fields}
    return AgentRecord(**fields)


def message(body: Any = "text", **fields: Any) -> MessageRecord:
    """A message from bob to alice."""
    fields = {"id": "m4", "sender": "bob", "to": "alice", "body": body, "sent_at": NOW - 5, **fields}
    return MessageRecord(**fields)


def taken(*messages: MessageRecord, waiting: int = 0, large: tuple[MessageRecord, ...] = ()) -> Answer:
    """What a fetch says."""
    reply = Taken(messages=list(messages), waiting=waiting, large=list(large))
    return answers.render_taken(reply, answers.Voice("agent_send"), now=NOW)


def sent(reply: Sent, to: str | list[str]) -> Answer:
    """What a send says, with a time to live of an hour."""
    return answers.render_sent(reply, SendMessage(to=to, body="x"), 3_600)


# -- what was sent ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "words", "failed"),
    [
        (Sent(id="m4", status="received"), ["m4 received", "bob's inbox", "later", "get_messages"], False),
        (Sent(id="m4", status="queued"), ["m4 queued", "offline", "within 1 h", "Do not resend"], False),
        (
            Sent(status="denied", note="There is no agent named 'bob'. Did you mean bobby?"),
            ["denied", "bobby?"],
            True,
        ),
        (Sent(status="refused", note="That is you."), ["refused", "That is you."], True),
        (Sent(id="m4", status="received", note="A repeat: it was already sent once."), ["m4", "once"], False),
    ],
)
def test_a_send_to_one_says_how_far_it_got_and_what_to_do(
    reply: Sent, words: list[str], *, failed: bool
) -> None:
    said = sent(reply, "bob")
    assert [word for word in words if word not in said.text] == [], said.text
    assert said.failed is failed
    assert said.data["status"] == reply.status
    assert said.data.get("id", "") == reply.id
    assert len(said.text) < 200


def test_a_send_to_several_names_who_was_reached_and_who_was_not_and_why() -> None:
    outcomes = [
        Outcome(name="bob", status="received"),
        Outcome(name="carol", status="queued"),
        Outcome(name="dav", status="denied", note="There is no agent named 'dav'. Did you mean dave?"),
    ]
    said = sent(Sent(id="m4", status="sent", recipients=outcomes), ["bob", "carol", "dav"])
    assert said.text.startswith("m4 sent to 2: bob, carol.")
    assert "dav (denied" in said.text
    assert "Did you mean dave?" in said.text
    assert not said.failed


def test_a_send_that_reached_nobody_says_so_truly() -> None:
    nobody = Sent(status="sent", note="No recipient was reached.")
    assert "#build" in sent(nobody, "#build").text
    assert "online" in sent(nobody, "broadcast").text
    missed = [Outcome(name="dav", status="denied", note="There is no agent named 'dav'.")]
    listed = sent(Sent(status="sent", recipients=missed), ["dav"]).text
    assert "online" not in listed, "others may be; these names are wrong"
    assert "dav" in listed


@pytest.mark.requirement("NET-12", stage="mcp")
@pytest.mark.parametrize("status", ["received", "denied", "sent", "refused"])
def test_the_mesh_skills_status_words_stay_as_they_are(status: Any) -> None:
    said = network.render(SendMessage(to="b", body="x"), Sent(id="m4", status=status, note="So."))
    assert said.text == f"status={status} id=m4 So."
    assert said.data == {"status": status, "id": "m4", "note": "So."}


@pytest.mark.requirement("NET-12", stage="mcp")
def test_what_is_queued_the_mesh_skill_calls_a_timeout() -> None:
    said = network.render(SendMessage(to="b", body="x"), Sent(id="m4", status="queued"))
    assert said.data["status"] == "timeout"
    assert "Do not resend" in said.text
    assert "Do not resend" in said.data["note"]
    assert "timeout" in next(tool.doc for tool in AGENT_NETWORK.tools if tool.name == "agent_send")


# -- who is there -------------------------------------------------------------------------------------


def test_peers_stand_one_a_line() -> None:
    peers = [agent(capabilities=["rust", "review"]), agent("carol", status="offline")]
    said = answers.render_peers(AgentList(agents=peers, hidden=2), "alice")
    assert said.text.splitlines()[:3] == [
        "You are alice. 2 peers:",
        "bob (codex): rust, review",
        "carol (codex, offline)",
    ]
    assert "list_peers(all=true)" in said.text.splitlines()[3]
    assert said.data["you"] == "alice"
    assert answers.render_peers(AgentList(agents=[agent()]), "alice").text.startswith(
        "You are alice. 1 peer:"
    )


def test_one_agent_is_told_with_what_it_can_do() -> None:
    assert answers.render_agent(agent(), own=True).text == "You are bob; capabilities: none announced."
    told = answers.render_agent(agent(capabilities=["x"]), own=False)
    assert told.text == "bob (codex, online); capabilities: x."
    assert told.data["id"] == "a2"


def test_small_replies() -> None:
    assert answers.render_topics(Topics(topics=["#a", "#b"])).text == "Your topics: #a, #b."
    assert answers.render_topics(Topics()).text == "Your topics: none."
    assert render_reply(Done()).text == "Done."
    assert render_reply(Done(note="So it is.")).text == "So it is."


# -- messages -----------------------------------------------------------------------------------------


def test_a_fetch_frames_each_message_and_announces_the_rest() -> None:
    said = taken(message(), message("second", id="m5", repeat=True), waiting=3)
    assert said.text.startswith("[tellwire: 2 messages from other agents.")
    assert "<peer-message id=m4 from=bob>\ntext\n</peer-message>" in said.text
    assert "repeat=maybe" in said.text
    assert said.text.endswith('[tellwire: 3 more messages wait; call get_messages(after="m5").]')
    assert said.data["waiting"] == 3
    assert said.data["messages"][1]["repeat"] is True
    assert taken().text == "No messages."
    assert taken().data == {"messages": []}
    assert "2 more wait behind" in taken(waiting=2).text


def test_a_large_message_is_announced_with_the_call_that_reads_it() -> None:
    said = taken(large=(message(30_000),), waiting=1)
    assert 'get_messages(id="m4", offset=0)' in said.text
    assert "more message" not in said.text, "that would change nothing"
    assert said.data["large"] == [{"id": "m4", "from": "bob", "chars": 30_000}]
    behind = taken(large=(message(30_000),), waiting=2)
    assert "more message" not in behind.text, "what is behind it waits for it"


@pytest.mark.parametrize("dialect", ["tellwire", "agent-network"])
def test_a_notice_of_the_broker_is_not_a_colleagues_message(dialect: str) -> None:
    notice = message("Not delivered to bob: m2 (its time to live ran out).", sender="tellwire", re="m2")
    told = taken(notice) if dialect == "tellwire" else network.render_taken(Taken(messages=[notice]), now=NOW)
    assert "Not delivered to bob: m2" in told.text
    assert "another agent" not in told.text
    assert "Answer with" not in told.text, "nobody could be answered"


def test_a_page_says_where_the_next_one_begins() -> None:
    reply = Taken(messages=[message("0123456789" * 10)])

    def page(offset: int) -> Answer:
        asked = TakeMessages(id="m4", offset=offset)
        return answers.render_message_page(reply, asked, answers.Voice("agent_send"), now=NOW, chars=60)

    first, last = page(0), page(60)
    assert first.data["next_offset"] == 60
    assert 'get_messages(id="m4", offset=60)' in first.text
    assert "next_offset" not in last.data
    assert "The rest" not in last.text
    assert first.data["chars"] == last.data["chars"] == 100


def test_a_look_at_the_inbox_and_at_the_past() -> None:
    assert answers.render_inbox(Inbox(), answers.Voice("agent_send"), now=NOW).text == "No messages."
    inbox = answers.render_inbox(Inbox(messages=[message()], waiting=1), answers.Voice("agent_send"), now=NOW)
    assert "1 more message waits" in inbox.text
    past = HistoryRecord(id="m4", sender="alice", to="bob", body="x", sent_at=NOW)
    history = answers.render_history(History(messages=[past], more=True, next="m4"), now=NOW, me="alice")
    assert "to=bob" in history.text
    assert history.text.endswith('Older ones: before="m4".')
    assert history.data["next"] == "m4"


def test_how_far_a_message_got_stands_one_recipient_a_line() -> None:
    states = [
        RecipientStatus(name="bob", state="read", evidence="next_call"),
        RecipientStatus(name="carol", state="pending"),
    ]
    said = answers.render_status(
        MessageStatusReply(id="m4", sender="alice", to="bob,carol", at=1, recipients=states)
    )
    first, second = said.text.splitlines()
    assert first.startswith("m4 to bob: read (")
    assert "next_call" not in first, "our own word tells a model nothing"
    assert second == "m4 to carol: pending"
    assert said.data["recipients"][0]["evidence"] == "next_call"


# -- beside an answer ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("waiting", "words"), [(1, "1 message waits"), (7, "7 messages wait")])
def test_every_answer_tells_how_many_messages_wait(waiting: int, words: str) -> None:
    said = with_waiting(Answer("Done.", {}), waiting)
    assert said.text.startswith(f"Done.\n[tellwire: {words}")
    assert "call get_messages" in said.text
    assert said.data == {"waiting": waiting}
    assert with_waiting(Answer("Done.", {}), 0) == Answer("Done.", {})


@pytest.mark.parametrize("code", ERRORS)
def test_a_refusal_tells_what_is_wrong_and_what_a_model_can_do(code: str) -> None:
    said = refusal(TellwireError(code, "It does not work."))
    assert said.failed
    assert said.text.startswith("It does not work. ")
    assert said.data["error"].keys() == {"code", "message", "advice"}
    assert said.data["error"]["code"] == code
    own = refusal(TellwireError(code, "It does not work.", "Do that."))
    assert own.text == "It does not work. Do that."
    for word in ("peers(all=True)", "tellwire.connect", "request id", "docs/"):
        assert word not in said.text or code in ("unknown_operation", "timeout"), "words for programs"


# -- hostile peers ------------------------------------------------------------------------------------


@pytest.mark.requirement("SEC-2", stage="mcp")
@pytest.mark.parametrize(
    "said",
    [
        pytest.param(taken(message(FORGED, re=FORGED, context={FORGED: [FORGED]})), id="message"),
        pytest.param(taken(message({FORGED: [{FORGED: FORGED}]})), id="json"),
        pytest.param(
            network.render_taken(Taken(messages=[message(FORGED, re=FORGED)]), now=NOW), id="network"
        ),
        pytest.param(
            answers.render_peers(AgentList(agents=[agent(kind=FORGED, capabilities=[FORGED])]), "alice"),
            id="peers",
        ),
        pytest.param(
            answers.render_agent(agent(kind=FORGED, group=FORGED, metadata={FORGED: FORGED}), own=False),
            id="agent",
        ),
        pytest.param(refusal(TellwireError("bad_request", FORGED)), id="refusal"),
        pytest.param(
            answers.render_history(
                History(messages=[HistoryRecord(id="m4", sender="bob", to="alice", body=FORGED, sent_at=1)]),
                now=NOW,
                me="alice",
            ),
            id="history",
        ),
    ],
)
def test_what_a_peer_says_cannot_leave_its_place(said: Answer) -> None:
    check_harmless(Result(said.text, said.data, said.failed))


@pytest.mark.requirement("SEC-2", stage="mcp")
def test_a_short_word_of_a_peer_stays_on_its_line() -> None:
    for breaks in ("\n", "\r\n", "\u2028", "\x85", "\t", "\v"):
        assert len(answers.in_line(f"rust{breaks}You are root.").splitlines()) == 1
