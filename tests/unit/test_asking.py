"""A question to a fresh agent, on the bare kernel: what counts as its answer, and what is left (F2-9)."""

from __future__ import annotations

import pytest

from tellwire.core.children.reports import OUTPUT_CHARS_MAX
from tellwire.core.context import NoteChildEnd, ReserveAsk, StartBroker
from tellwire.core.limits import Limits
from tellwire.core.state import State
from tellwire.protocol.events import AgentForgotten, Audience, MessageQueued
from tellwire.protocol.events.children import ChildEnded, ChildFailed
from tellwire.protocol.operations.asking import Answered, AskAgent, CancelAsk
from tellwire.protocol.operations.children import ChildRecord, StopAgent
from tests.unit.family import Family
from tests.unit.mesh import OPERATOR, refused


class Questions(Family):
    """A family whose agents ask."""

    def ask(self, who: str, word: str = "k", *, client: str = "codex", **fields: object) -> str:
        """Have an agent asked; its name."""
        ask = AskAgent(client=client, question="What?", key=self.key(word), **fields)  # pyright: ignore[reportArgumentType]
        record = self.run(ReserveAsk(ask), self.caller(who))
        assert isinstance(record, ChildRecord)
        return record.name

    def again(self, who: str, word: str = "k") -> Answered:
        """The same question once more."""
        ask = AskAgent(client="codex", question="What?", key=self.key(word))
        return self.run(ReserveAsk(ask), self.caller(who))

    def asked(self, who: str = "boss", *, client: str = "codex") -> str:
        """The whole way until it works on the question."""
        name = self.ask(who, client=client)
        self.start(name)
        self.connect(name, kind=client)
        self.up(name)
        return name

    def ends(self, name: str, code: int | None = 0, said: str = "") -> None:
        agent = self.agent(name)
        self.alive.discard(self.child(name).process)
        self.run(NoteChildEnd(agent.id, "exited", said, code))

    def cancel(self, who: str, word: str = "k") -> None:
        self.run(CancelAsk(key=self.key(word)), self.caller(who))


@pytest.fixture
def mesh() -> Questions:
    mesh = Questions()
    mesh.register("boss", kind="codex")
    mesh.register("alice")
    return mesh


def nothing_left(mesh: Questions, name: str) -> None:
    """No child, no name, no claim, no mail for the asker, and the journal tells the same."""
    state: State = mesh.state
    assert state.children == {}
    assert state.children_of == {}
    assert state.claims == {}
    assert state.find(name) is None
    assert mesh.bodies("boss") == []
    assert mesh.replayed() == state


# -- what is an answer --------------------------------------------------------------------------------


@pytest.mark.requirement("F2-9", "AUD-6", stage="lineage")
def test_the_final_words_of_its_first_turn_are_the_answer(mesh: Questions) -> None:
    name = mesh.asked()
    assert mesh.bodies(name) == ["What?"]
    mesh.turn(name, "t1", "Forty-two.")
    assert mesh.child(name).status == "stopping"
    assert mesh.bodies("boss") == [], "it is no mail besides"
    mesh.turn(name, "t2", "And another thing.")
    mesh.ends(name, None)
    answer = mesh.again("boss")
    assert (answer.text, answer.name, answer.client) == ("Forty-two.", name, "codex")
    assert mesh.states(answer.message) == {"boss": "read"}
    assert mesh.evidence(answer.message) == {"boss": "answer"}
    nothing_left(mesh, name)


@pytest.mark.requirement("F2-9", stage="lineage")
def test_a_reply_to_the_question_is_the_answer_and_another_message_of_a_client_is_not(
    mesh: Questions,
) -> None:
    name = mesh.asked()
    (question,) = mesh.pending(name)
    mesh.send(name, "boss", "I look into it.")
    assert mesh.bodies("boss") == ["I look into it."]
    mesh.send(name, "alice", "Do you know?", re=question)
    assert mesh.child(name).result == 0
    mesh.send(name, "boss", "Forty-two.", re=question)
    assert mesh.again("boss").text == "Forty-two."
    assert mesh.bodies("boss") == ["I look into it."]
    mesh.send(name, "boss", "One more.", re=question)
    assert mesh.bodies("boss") == ["I look into it.", "One more."], "what comes later is a message like any"


@pytest.mark.requirement("F2-9", stage="lineage")
def test_any_message_of_a_program_to_its_asker_is_the_answer(mesh: Questions) -> None:
    name = mesh.asked(client="command")
    mesh.send(name, "alice", "not this")
    mesh.send(name, "boss", {"n": 42})
    assert mesh.again("boss").text == '{"n":42}'
    mesh.ends(name, None)
    nothing_left(mesh, name)


@pytest.mark.requirement("F2-9", stage="lineage")
def test_an_asker_whose_inbox_is_full_still_gets_the_answer() -> None:
    mesh = Questions(Limits(mailbox_messages_max=1, reserve_messages_max=0))
    mesh.register("boss", kind="codex")
    mesh.register("alice")
    mesh.send("alice", "boss", "full")
    name = mesh.asked(client="command")
    mesh.send(name, "boss", "Forty-two.")
    assert mesh.again("boss").text == "Forty-two."
    assert mesh.bodies("boss") == ["full"]


@pytest.mark.requirement("F2-9", stage="lineage")
@pytest.mark.parametrize("up", [True, False], ids=["up", "before-it-was-up"])
def test_what_it_wrote_is_the_answer_if_it_ends_well(mesh: Questions, up: bool) -> None:
    name = mesh.asked() if up else mesh.ask("boss")
    if not up:
        mesh.start(name)
    mesh.ends(name, 0, " Forty-two.\n")
    assert mesh.again("boss").text == "Forty-two."
    assert len(mesh.of_type(ChildEnded)) == 1
    nothing_left(mesh, name)


@pytest.mark.requirement("F2-9", stage="lineage")
def test_an_answer_that_fits_no_message_is_cut_and_says_so(mesh: Questions) -> None:
    name = mesh.asked()
    mesh.ends(name, 0, "ä" * 40_000)
    text = mesh.again("boss").text
    assert len(text.encode()) <= mesh.limits.body_bytes_max
    assert text.endswith("ä\n[cut: the whole has 80000 bytes]")


@pytest.mark.requirement("F2-9", stage="lineage")
@pytest.mark.parametrize(
    ("code", "said"), [(1, "no key"), (-9, "half an ans"), (None, "who knows"), (0, " \n")]
)
@pytest.mark.parametrize("up", [True, False], ids=["up", "before-it-was-up"])
def test_anything_else_is_no_answer_and_tells_nobody(
    mesh: Questions, code: int | None, said: str, up: bool
) -> None:
    name = mesh.asked() if up else mesh.ask("boss")
    if not up:
        mesh.start(name)
    mesh.ends(name, code, said)
    with refused("child_failed"):
        mesh.again("boss")
    assert len(mesh.of_type(ChildEnded if up else ChildFailed)) == 1
    nothing_left(mesh, name)


@pytest.mark.requirement("F2-9", stage="lineage")
@pytest.mark.parametrize("outcome", ["errored", "interrupted", "waiting"])
def test_a_turn_that_fails_is_no_answer(mesh: Questions, outcome: str) -> None:
    name = mesh.asked()
    mesh.turn(name, "t1", "Oh no.", outcome=outcome)
    assert mesh.child(name).status == "running", "its exit will tell"
    assert mesh.bodies("boss") == []


@pytest.mark.requirement("F2-9", stage="lineage")
def test_what_it_is_told_and_heard_never_becomes_a_notice_for_the_asker(mesh: Questions) -> None:
    name = mesh.asked()
    mesh.send("alice", name, "Hello?")
    mesh.turn(name, "t1", "Forty-two.")
    mesh.ends(name, None)
    (lost,) = mesh.bodies("alice")
    assert lost.startswith(f"Not delivered to {name}:")
    nothing_left(mesh, name)


# -- one that is asked --------------------------------------------------------------------------------


@pytest.mark.requirement("F2-9", "CHILD-5", stage="lineage")
def test_it_may_write_nowhere_and_is_without_a_window(mesh: Questions) -> None:
    name = mesh.asked()
    child = mesh.child(name)
    assert (child.scoped, child.headless, child.asked) == (True, True, True)
    assert not mesh.judge(name, "/p/a").allowed


@pytest.mark.requirement("F2-9", stage="lineage")
def test_the_bounds_of_children_hold_for_it(mesh: Questions) -> None:
    mesh = Questions(Limits(children_max=1, child_depth_max=1))
    mesh.register("boss", kind="codex")
    name = mesh.asked()
    with refused("too_many_children"):
        mesh.ask("boss", "other")
    with refused("too_deep"):
        mesh.ask(name, "deeper")
    mesh.ends(name)
    assert mesh.ask("boss", "third")


@pytest.mark.requirement("F2-9", stage="lineage")
def test_a_name_that_somebody_bears_already_is_not_taken(mesh: Questions) -> None:
    expected = f"ask-a{mesh.state.seq + 2}"
    mesh.register(expected)
    assert mesh.ask("boss") not in (expected, "")


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("bad_request", {"question": " "}),
        ("bad_request", {"timeout_s": 0.0}),
        ("bad_request", {"timeout_s": -1.0}),
        ("bad_request", {"timeout_s": 1e9}),
        ("bad_request", {"timeout_s": float("nan")}),
        ("bad_request", {"client": ""}),
        ("bad_request", {"key": "no-birth"}),
        ("bad_request", {"key": "f4240-" + "x" * 200}),
        ("body_too_large", {"question": "x" * 70_000}),
    ],
)
def test_a_bad_question_reserves_nothing(mesh: Questions, code: str, fields: dict[str, object]) -> None:
    words = {"client": "codex", "question": "What?", "key": mesh.key("k"), **fields}
    with refused(code):
        mesh.run(ReserveAsk(AskAgent(**words)), mesh.caller("boss"))  # pyright: ignore[reportArgumentType]
    assert mesh.state.children == {}


def test_who_is_no_agent_asks_nobody(mesh: Questions) -> None:
    with refused("not_registered"):
        mesh.run(ReserveAsk(AskAgent(client="codex", question="q", key=mesh.key("k"))), OPERATOR)


# -- nobody waits any more ----------------------------------------------------------------------------


@pytest.mark.requirement("F2-9", stage="lineage")
def test_a_question_can_be_taken_back_at_every_step(mesh: Questions) -> None:
    for steps in range(4):
        name = mesh.ask("boss", f"k{steps}")
        for step in (mesh.start, mesh.connect, mesh.up)[:steps]:
            step(name)
        mesh.cancel("boss", f"k{steps}")
        mesh.cancel("boss", f"k{steps}")
        if steps == 3:
            assert mesh.child(name).status == "stopping"
            mesh.ends(name, None)
        nothing_left(mesh, name)


@pytest.mark.requirement("F2-9", stage="lineage")
def test_nobody_takes_anothers_question_back(mesh: Questions) -> None:
    name = mesh.asked()
    mesh.cancel("alice")
    assert mesh.child(name).status == "running"
    with refused("forbidden"):
        mesh.run(StopAgent(name=name), mesh.caller("alice"))


@pytest.mark.requirement("F2-9", "CHILD-6", stage="lineage")
@pytest.mark.parametrize("alive", [True, False])
@pytest.mark.parametrize("steps", range(4))
def test_after_a_crash_of_the_broker_it_ends_and_the_asker_hears_so(
    mesh: Questions, steps: int, alive: bool
) -> None:
    name = mesh.ask("boss")
    for step in (mesh.start, mesh.connect, mesh.up)[:steps]:
        step(name)
    mesh.state = mesh.replayed()
    if not alive:
        mesh.alive.clear()
    mesh.run(StartBroker("2"))
    mesh.sweep(begun=True)
    mesh.register("boss", kind="codex")
    with refused("child_failed") as caught:
        mesh.again("boss")
    assert "The answer is lost" in caught.value.message
    if mesh.state.children:
        assert mesh.child(name).status == "stopping"
        mesh.kill(name)
        mesh.sweep()
    nothing_left(mesh, name)


@pytest.mark.requirement("F2-9", "CHILD-6", stage="lineage")
def test_an_answer_that_was_committed_survives_a_crash(mesh: Questions) -> None:
    name = mesh.asked()
    mesh.turn(name, "t1", "Forty-two.")
    mesh.state = mesh.replayed()
    mesh.run(StartBroker("2"))
    mesh.sweep(begun=True)
    mesh.register("boss", kind="codex")
    assert mesh.again("boss").text == "Forty-two."


@pytest.mark.requirement("F2-9", stage="lineage")
def test_an_asker_that_is_forgotten_leaves_no_agent_at_work(mesh: Questions) -> None:
    name = mesh.asked("alice")
    mesh.forget("alice")
    mesh.sweep()
    assert mesh.child(name).status == "stopping"
    mesh.turn(name, "t1", "Forty-two.")
    mesh.ends(name)
    nothing_left(mesh, name)


@pytest.mark.requirement("F2-9", "CHILD-4", stage="lineage")
def test_its_own_children_are_the_askers_who_is_told(mesh: Questions) -> None:
    name = mesh.asked()
    mesh.bear(name, "grandkid", scope=[])
    mesh.turn(name, "t1", "Forty-two.")
    mesh.ends(name)
    told = f"{name}, which you asked something, has ended. Its children are yours now: grandkid."
    assert mesh.bodies("boss") == [told]
    assert mesh.state.children[mesh.agent("grandkid").id].parent == mesh.agent("boss").id


def test_only_its_end_and_its_answer_are_for_agents(mesh: Questions) -> None:
    name = mesh.asked()
    before = len(mesh.events)
    mesh.turn(name, "t1", "x" * (2 * OUTPUT_CHARS_MAX))
    mesh.ends(name)
    kinds = [type(event) for _, event in mesh.events[before:] if event.audience is Audience.AGENT]
    assert kinds.count(MessageQueued) == 1
    assert type(mesh.events[-1][1]) is AgentForgotten


@pytest.mark.requirement("F2-9", "CHILD-4", stage="lineage")
@pytest.mark.parametrize("asking", [True, False], ids=["one-that-is-asked", "a-child"])
def test_what_a_child_asked_ends_with_the_child_and_is_handed_to_nobody(
    mesh: Questions, asking: bool
) -> None:
    middle = mesh.asked() if asking else mesh.bear("boss", "middle", scope=[]).name
    deepest = mesh.ask(middle, "deeper")
    mesh.start(deepest)
    mesh.connect(deepest)
    mesh.up(deepest)
    mesh.bear(deepest, "grandkid", scope=[])
    mesh.kill(middle)
    mesh.sweep()
    assert mesh.child(deepest).status == "stopping", "nobody waits for its answer"
    assert not any(deepest in body for body in mesh.bodies("boss")), "it was nobody's to inherit"
    assert mesh.agent(deepest).id not in mesh.state.children_of.get(mesh.agent("boss").id, {})
    mesh.kill(deepest)
    mesh.sweep()
    assert mesh.state.find(deepest) is None
    assert mesh.replayed() == mesh.state
