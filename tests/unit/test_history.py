"""Who may read which of the past, the words of a query, and the journal as people read it."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.core.context import (
    Caller,
    NoteRefusals,
)
from tellwire.core.kernel import decide
from tellwire.core.record import audit
from tellwire.core.record.audit import describe, type_name_of
from tellwire.core.record.stored import Entry, Query, StoredPage
from tellwire.core.record.terms import Term, matches, parse_terms, searched_text, words_of
from tellwire.protocol.events import (
    EVENTS,
    AgentRegistered,
    CallRefused,
    MessageAnswered,
    MessageQueued,
    TopicJoined,
)
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.audit import Audit, ReadAudit
from tellwire.protocol.operations.feed import WatchFeed
from tellwire.protocol.operations.history import History, ReadHistory, SearchMessages
from tests.golden.samples import SAMPLES
from tests.unit.mesh import OPERATOR, SCRIPT, Mesh, refused


class Talk:
    """A mesh with three agents who have talked, and a look at its past."""

    def __init__(self) -> None:
        self.mesh = mesh = Mesh()
        for name in ("alice", "bob", "carol"):
            mesh.register(name)
        mesh.send("alice", "bob", "the deploy failed")
        mesh.send("bob", "alice", "which deploy", re="m4")
        mesh.send("carol", ["alice", "bob"], "lunch?")
        mesh.send("bob", "carol", {"deploy": [1, "two words"]})
        self.query: Query | None = None

    def ask(self, operation: Any, caller: Caller) -> Any:
        """Answer out of the mesh's own store."""
        mesh = self.mesh
        context = mesh.context(caller)
        context.find = self._find
        context.receipts = lambda seqs: {seq: context.settled(seq) for seq in seqs}
        context.entries = self._entries
        context.head = lambda: "ab"
        return decide(mesh.state, operation, context).reply

    def bodies(self, operation: Any, caller: Caller) -> list[Any]:
        """The bodies of one page."""
        reply: History = self.ask(operation, caller)
        return [message.body for message in reply.messages]

    def _find(self, query: Query) -> StoredPage:
        self.query = query
        rows = [
            row
            for row in self.mesh.stored.values()
            if query.concerns(row.sender, row.recipients.split(), row.to)
            and matches(query.terms, searched_text(row.body, is_json=bool(row.json)))
            and not (query.before and row.seq >= query.before)
        ]
        page = sorted(rows, reverse=True)[: query.limit]
        rest = len(rows) > len(page)
        return StoredPage([(row.header(), row.record()) for row in page], page[-1].seq if rest else 0)

    def _entries(self, after: int, before: int, limit: int) -> list[Entry]:
        found = [
            Entry(seq, 5.0, event)
            for seq, event in self.mesh.events
            if seq > after and (not before or seq < before)
        ]
        return found[:limit] if after else found[-limit:]


@pytest.fixture
def past() -> Talk:
    return Talk()


# -- who may read what --------------------------------------------------------------------------------


def test_an_agent_reads_what_it_sent_and_received_newest_first(past: Talk) -> None:
    caller = past.mesh.caller("alice")
    assert past.bodies(ReadHistory(), caller) == ["lunch?", "which deploy", "the deploy failed"]
    assert past.bodies(ReadHistory(agent="Alice"), caller) == past.bodies(ReadHistory(), caller)
    assert past.bodies(ReadHistory(peer="carol"), caller) == ["lunch?"]


def test_an_agent_cannot_read_what_passed_between_others(past: Talk) -> None:
    caller = past.mesh.caller("carol")
    assert past.bodies(SearchMessages(query="failed"), caller) == []
    with refused("forbidden"):
        past.ask(ReadHistory(agent="alice"), caller)
    with refused("forbidden"):
        past.ask(SearchMessages(query="x", agent="bob", peer="carol"), caller)


@pytest.mark.parametrize("caller", [OPERATOR, SCRIPT], ids=["operator", "script"])
def test_operator_and_script_read_all_and_may_filter(past: Talk, caller: Caller) -> None:
    assert len(past.bodies(ReadHistory(), caller)) == 4
    assert past.bodies(ReadHistory(agent="carol"), caller) == [{"deploy": [1, "two words"]}, "lunch?"]
    assert past.bodies(ReadHistory(peer="carol"), caller) == past.bodies(ReadHistory(agent="carol"), caller)
    between = past.bodies(ReadHistory(agent="alice", peer="bob"), caller)
    assert between == ["which deploy", "the deploy failed"]
    assert past.bodies(SearchMessages(query="deploy", agent="alice"), caller) == between


def test_a_forgotten_agent_is_found_by_its_id_and_the_broker_by_its_name(past: Talk) -> None:
    mesh = past.mesh
    carol = mesh.agent("carol").id
    mesh.forget("carol")
    assert "lunch?" in past.bodies(ReadHistory(agent=f"id:{carol}"), OPERATOR)
    with refused("unknown_agent"):
        past.ask(ReadHistory(agent="carol"), OPERATOR)
    (notice,) = past.bodies(ReadHistory(agent="tellwire"), OPERATOR)
    assert notice.startswith("Not delivered to carol")


def test_a_record_tells_all_of_a_message_and_how_far_it_got(past: Talk) -> None:
    reply: History = past.ask(ReadHistory(peer="bob"), past.mesh.caller("alice"))
    answer, question = reply.messages
    assert (answer.sender, answer.to, answer.re, answer.kind) == ("bob", "alice", "m4", "response")
    assert [(each.name, each.state) for each in question.recipients] == [("bob", "answered")]
    assert [(each.name, each.state) for each in answer.recipients] == [("alice", "pending")]


def test_pages_are_bounded_and_follow_each_other(past: Talk) -> None:
    first: History = past.ask(ReadHistory(limit=3), OPERATOR)
    assert (len(first.messages), first.more, first.next) == (3, True, first.messages[-1].id)
    second: History = past.ask(ReadHistory(limit=3, before=first.next), OPERATOR)
    assert (len(second.messages), second.more, second.next) == (1, False, "")
    for limit in (0, -1, 201):
        with refused("limit_exceeded"):
            past.ask(ReadHistory(limit=limit), OPERATOR)
    with refused("unknown_message"):
        past.ask(ReadHistory(before="yesterday"), OPERATOR)


def test_times_and_bounds_reach_the_store(past: Talk) -> None:
    past.ask(SearchMessages(query="x", since=1.5, until=2.5, before="m7", limit=9), OPERATOR)
    assert past.query is not None
    assert past.query == Query(9, past.mesh.limits.page_bytes_max, terms=(Term(("x",)),))._replace(
        since=1.5, until=2.5, before=7
    )


# -- words --------------------------------------------------------------------------------------------


def test_words_are_letters_and_digits_without_case_and_accents() -> None:
    assert words_of("Über-Café: x_1, STRASSE straße") == ["uber", "cafe", "x", "1", "strasse", "strasse"]
    assert words_of("done👍 日本語") == ["done", "日", "本", "語"]


def test_a_query_is_words_phrases_and_beginnings() -> None:
    assert parse_terms('Deploy "two Words" beg* a-b "open') == (
        Term(("deploy",)),
        Term(("two", "words")),
        Term(("beg",), prefix=True),
        Term(("a", "b")),
        Term(("open",)),
    )


@pytest.mark.parametrize("query", ["", "   ", "!!!", '""', '"', "*", "--", "\0", "( ) : ^"])
def test_a_query_without_words_is_refused(query: str) -> None:
    with refused("bad_request"):
        parse_terms(query)


@pytest.mark.parametrize("query", ["a*", "word ab*", "x-1*"])
def test_a_beginning_must_not_be_too_short(query: str) -> None:
    with refused("bad_request"):
        parse_terms(query)


def test_a_query_is_bounded() -> None:
    for query in ("x" * 1_001, " ".join("abc" for _ in range(33))):
        with refused("limit_exceeded"):
            parse_terms(query)


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("two one", "One, two", True),
        ("two three", "one two", False),
        ("thr*", "one two three", True),
        ("tw", "one two", False),
        ('"one two"', "one-two", True),
        ('"two one"', "one two", False),
        ("one-two*", "one twofold", True),
        ("one-two*", "one and twofold", False),
        ("日*", "本日は", True),
        ("a-b-c", "a b b c a b c", True),
        ("cafe", "CAFÉ", True),
        ("本語", "日本語です", True),
    ],
)
def test_all_terms_must_occur(query: str, text: str, found: bool) -> None:
    assert matches(parse_terms(query), text) is found


def test_a_json_body_is_searched_by_its_text() -> None:
    text = searched_text('{"key":["line\\nbreak",1.5,null,{"deep":"ä"}]}', is_json=True)
    assert words_of(text) == ["key", "line", "break", "1", "5", "null", "deep", "a"]


# -- the journal as people read it --------------------------------------------------------------------


def test_the_audit_tells_one_row_per_event_and_bodies_by_digest_only(past: Talk) -> None:
    reply: Audit = past.ask(ReadAudit(), OPERATOR)
    assert [row.seq for row in reply.rows] == [seq for seq, _ in past.mesh.events]
    assert reply.head == "ab"
    row = next(row for row in reply.rows if row.type == "message_queued")
    (event, *_) = past.mesh.of_type(MessageQueued)
    assert (row.who, row.whom, row.detail["digest"]) == ("alice", ["bob"], event.digest)
    assert "failed" not in str(reply)


def test_the_audit_is_read_backwards_from_the_end_and_forwards_from_a_place(past: Talk) -> None:
    newest: Audit = past.ask(ReadAudit(limit=2), OPERATOR)
    last = past.mesh.state.seq
    assert ([row.seq for row in newest.rows], newest.more) == ([last - 1, last], True)
    before: Audit = past.ask(ReadAudit(limit=2, before=last - 1), SCRIPT)
    assert [row.seq for row in before.rows] == [last - 3, last - 2]
    behind: Audit = past.ask(ReadAudit(limit=2, after=1), OPERATOR)
    assert ([row.seq for row in behind.rows], behind.more) == ([2, 3], True)
    for wrong in (ReadAudit(limit=0), ReadAudit(limit=1_001)):
        with refused("limit_exceeded"):
            past.ask(wrong, OPERATOR)
    with refused("bad_request"):
        past.ask(ReadAudit(after=-1), OPERATOR)


@pytest.mark.parametrize("operation", [ReadAudit(), WatchFeed()], ids=["audit", "feed"])
def test_audit_and_feed_are_not_for_agents(past: Talk, operation: Any) -> None:
    with refused("forbidden"):
        past.ask(operation, past.mesh.caller("alice"))


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_every_event_can_be_put_into_words(event: Any) -> None:
    line = describe(event, 7, lambda agent: f"name-of-{agent}")
    assert type_name_of(event) in EVENTS
    assert isinstance(line.detail, dict)
    if not isinstance(event, AgentRegistered | MessageQueued) and line.who:
        assert line.who.startswith("name-of-")


def test_refusals_become_events_and_change_nothing(past: Talk) -> None:
    row = CallRefused("a1", "send_message", "denied", 3, 5.0)
    before = past.mesh.replayed()
    past.mesh.run(NoteRefusals([row, row]))
    assert past.mesh.of_type(CallRefused) == [row, row]
    after = past.mesh.replayed()
    assert after.seq == before.seq + 2
    after.seq = before.seq
    assert after == before
    assert describe(TopicJoined("a1", "x"), 1, str.upper).detail == {"topic": "#x"}


def test_the_audit_can_be_filtered_by_type_and_by_agent(past: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    every: Audit = past.ask(ReadAudit(limit=1_000), OPERATOR)
    for scan in (3, 2_000):
        monkeypatch.setattr(audit, "SCAN_MAX", scan)
        for types, agent in ((["message_queued"], None), ([], "alice"), (["messages_read"], "alice")):
            wanted = [
                row.seq
                for row in every.rows
                if (not types or row.type in types) and (agent is None or agent in (row.who, *row.whom))
            ]
            found: list[int] = []
            after = 1
            while after:
                page: Audit = past.ask(ReadAudit(limit=2, after=after, types=types, agent=agent), OPERATOR)
                found += [row.seq for row in page.rows]
                after = page.next
            assert found == [seq for seq in wanted if seq > 1], (types, agent)
            backwards: list[int] = []
            before = 0
            while True:
                page = past.ask(ReadAudit(limit=2, before=before, types=types, agent=agent), OPERATOR)
                backwards = [*[row.seq for row in page.rows], *backwards]
                before = page.next
                if not page.more:
                    break
            assert backwards == wanted
    with refused("bad_request"):
        past.ask(ReadAudit(types=["message_qeued"]), OPERATOR)
    with refused("unknown_agent"):
        past.ask(ReadAudit(agent="nobody"), OPERATOR)


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_every_event_names_all_its_ids_to_a_watcher(event: Any) -> None:
    told = audit.whole_event(Entry(7, 1.0, event), lambda agent: f"name-of-{agent}")
    seqs = [7] if isinstance(event, MessageQueued) else getattr(event, "seqs", [])
    if isinstance(event, MessageAnswered):
        seqs = [event.seq]
    assert told.ids == [format_id("m", seq) for seq in seqs]
    assert told.type == type_name_of(event)
