"""The manifest: every promise tellwire makes, its source, and the stage that builds it.

A promise may have several rows, one for each stage that has to keep it anew. A test names the rows it
proves with ``@pytest.mark.requirement("NET-3")`` or ``("REC-1", "REC-2", stage="mcp")``. Without
``stage`` the first row of the id is meant, so finishing a later stage always asks for new tests.
``test_requirements.py`` fails for a row of a BUILT stage that no test names (a test that may be
skipped does not count), and for a test that names a row which is unknown, or of a stage not begun.
"""

from typing import NamedTuple

STAGES = (
    *("broker", "shell", "mcp", "clients", "links", "lineage"),
    *("contact", "federation", "console", "install", "web", "reach"),
)
BUILT = ("broker", "shell", "mcp", "clients", "links", "lineage")
UNDER_WAY: tuple[str, ...] = ("contact", "federation", "console", "install")
"""Tests may name their rows already; not every row has one."""


class Requirement(NamedTuple):
    """One promise, as one stage has to keep it."""

    id: str
    stage: str
    source: str
    text: str


class Promise(NamedTuple):
    """One promise with the stages that have to keep it."""

    id: str
    stages: tuple[str, ...]
    text: str


# The founding requirements, by family.
FAMILIES = {
    "PEER": "peers",
    "AUD": "audience",
    "CHILD": "children",
    "NET": "mesh",
    "F2": "registry",
    "SC": "links",
    "REC": "receipts",
    "WAKE": "wake",
    "FED": "federation",
    "SEC": "security",
    "FIRST": "first contact",
    "INST": "installing",
    "HUM": "people",
    "REACH": "more clients",
}

# fmt: off
PROMISES = (
    Promise("PEER-1", ("lineage",), "Becoming peers is one fact for both sides, whole through any crash; asking twice changes nothing."),
    Promise("PEER-2", ("lineage",), "Oneself, an unknown, a hidden and an ended agent are refused as peers, each for its own reason."),
    Promise("PEER-3", ("lineage",), "Peers share no scope, cursor, ownership or completion notices, and are stored apart from children."),
    Promise("PEER-4", ("lineage",), "A listing says why each agent is seen; child goes before peer."),
    Promise("PEER-5", ("lineage",), "Sending to a peer needs a visible peer, labels the source, and delegates nothing."),
    Promise("PEER-6", ("console",), "`:peer` in the TUI answers with a notice and touches no conversation."),
    Promise("PEER-7", ("lineage",), "A group's policy is `open` or `peers`, and a peer can be removed."),

    Promise("AUD-1", ("broker", "lineage"), "Each event type states its audience; leaving it out fails at import."),
    Promise("AUD-2", ("broker", "lineage"), "Effects on state run for every audience, first, and are harmless when repeated."),
    Promise("AUD-3", ("lineage",), "News of deeper delegation climbs from parent to parent and is seen by no model."),
    Promise("AUD-4", ("lineage",), "A child's end of turn, error and shutdown reach the parent's inbox and may wake it."),
    Promise("AUD-5", ("clients", "lineage"), "One gate decides for the idle path and the mid-turn path."),
    Promise("AUD-6", ("broker", "clients", "lineage"), "What enters a context was durable before."),
    Promise("AUD-7", ("clients", "lineage"), "Turns caused only by lifecycle notices report nothing upward; notices are weak or strong."),

    Promise("CHILD-1", ("lineage",), "Spawning starts a real agent CLI, registers it as a child and gives it its task."),
    Promise("CHILD-2", ("lineage",), "Scopes lie within the parent's; two writers of one path are refused, naming the owner."),
    Promise("CHILD-3", ("lineage",), "The task goes out after the start is confirmed; a failed start leaves nothing behind."),
    Promise("CHILD-4", ("lineage",), "When a child ends, scope and grandchildren go to the parent, who hears of it once."),
    Promise("CHILD-5", ("lineage",), "A write outside the scope is stopped with a reason; listings say `enforced` or `advisory`."),
    Promise("CHILD-6", ("lineage",), "Children and what they did outlive restarts of parent and broker."),

    Promise("NET-1", ("broker", "federation"), "Listing answers at once, without the caller: who is online, or everybody on request."),
    Promise("NET-2", ("broker",), "A message has from, to, id, re and body, and the broker alone writes from."),
    Promise("NET-3", ("broker",), "A send to one agent tells its id and a true status at once."),
    Promise("NET-4", ("broker",), "A broadcast or a list tells who was reached, never includes the sender, and is bounded."),
    Promise("NET-5", ("broker",), "`re` only correlates; ids are short; an unknown `re` is delivered with a warning."),
    Promise("NET-6", ("broker", "federation"), "Order holds for each pair, through restarts and open leases."),
    Promise("NET-7", ("broker", "clients"), "Coming and going wakes nobody."),
    Promise("NET-8", ("broker", "mcp"), "Nothing blocks on a reply; fetching mail is bounded, may wait, and says what is left."),
    Promise("NET-9", ("broker",), "The broker may be killed at any moment: soon back, never two, nothing accepted lost or doubled."),
    Promise("NET-10", ("federation",), "Other machines answer with the same statuses, and replying to `from` as it stands works."),
    Promise("NET-11", ("shell",), "The audit tells every message and refusal, can be verified, and holds bodies by digest."),
    Promise("NET-12", ("mcp",), "The mesh skill's tool names, arguments and status words work as a dialect."),

    Promise("F2-1", ("mcp",), "The registry's ten tools work as a dialect."),
    Promise("F2-2", ("broker",), "An agent's record has id, name, type, capabilities, status, times and metadata."),
    Promise("F2-3", ("broker", "mcp"), "A message's record has mode, content type, payload, context, time and status."),
    Promise("F2-4", ("broker",), "Silence makes an agent offline in time, a stopped process too; any sign of life counts."),
    Promise("F2-5", ("broker",), "Mail for the absent is kept for its time to live, then the sender is told; lost time expires nothing."),
    Promise("F2-6", ("broker",), "Topics can be joined, published to and left; absent subscribers get theirs later."),
    Promise("F2-7", ("clients",), "It works across the supported agent CLIs, shown with the real programs."),
    Promise("F2-8", ("broker",), "Leaving, crashing and being killed are noticed and listed, and told to no uninvolved model."),
    Promise("F2-9", ("lineage",), "A one-shot question starts an agent, asks, returns the answer and ends it."),

    Promise("SC-1", ("links",), "A direct conversation is one link with two members, made or reused."),
    Promise("SC-2", ("links",), "A link holds any number of members with name, number and role, and is found by member."),
    Promise("SC-3", ("links",), "A direct send makes or reuses the link, says which, and silences stop notices for the pair."),
    Promise("SC-4", ("links",), "Fan-out reaches every other member, whoever of them fails."),
    Promise("SC-5", ("links",), "Only the final text of this turn crosses a link, framed, with truncation marked."),
    Promise("SC-6", ("links",), "Checkpoint answers and empty output neither cross nor cost budget."),
    Promise("SC-7", ("links",), "Any member severs the link for all at once."),
    Promise("SC-8", ("links",), "An ended session leaves its links and is never injected into; silence is not an end."),
    Promise("SC-9", ("links",), "Workers still notify their listeners once a turn, links or not."),
    Promise("SC-10", ("federation",), "Links work between any two machines."),
    Promise("SC-11", ("links",), "A conversation lasts many turns; hop count and turn budget end loops and say so."),
    Promise("SC-12", ("clients", "links"), "Links work in sessions of every supported agent CLI."),
    Promise("SC-13", ("web",), "A gathering passes a talking piece on the same link."),

    Promise("REC-1", ("broker", "mcp", "clients"), "The sender can see each recipient's state, from pending to answered."),
    Promise("REC-2", ("broker", "mcp", "clients"), "No evidence, no `read`: a lease without it returns and the message is offered again."),
    Promise("REC-3", ("broker", "mcp", "clients"), "Paths draining one inbox at once lose, double and reorder nothing."),
    Promise("REC-4", ("broker", "mcp", "clients"), "Waiting messages come together up to a limit; the rest is announced."),
    Promise("REC-5", ("broker", "shell", "mcp", "clients"), "Peeking consumes nothing."),
    Promise("REC-6", ("clients",), "Mail enters only the main conversation, never a sub-agent's."),

    Promise("WAKE-1", ("clients",), "Mail reaches the model mid-turn, at the end of a turn and idle, or the listing says it cannot."),
    Promise("WAKE-2", ("clients",), "Listing and doctor name the path that works now, and doctor proves it."),
    Promise("WAKE-3", ("clients",), "Wakes are budgeted, loops end, and headless runs end as fast as without us."),

    Promise("FED-1", ("federation",), "Redis Streams carry parcels; pairing is one command a side."),
    Promise("FED-2", ("federation",), "Parcels are encrypted and signed between pinned keys; the carrier can only withhold."),
    Promise("FED-3", ("federation",), "A send is durable here first, and arrives once and in order after any outage."),
    Promise("FED-4", ("federation",), "A revoked machine is out at once and stays out."),

    Promise("SEC-1", ("broker",), "Only the own user gets in, and the process ancestry decides who speaks."),
    Promise("SEC-2", ("mcp", "clients", "contact"), "Peer text is framed with its origin; the frame cannot be closed or forged from inside; the rule stands once per session."),
    Promise("SEC-3", ("broker",), "Everything has a bound; beyond it there is a clear error and the broker stays up."),
    Promise("SEC-4", ("clients", "web"), "Every HTTP door needs a token, checks Host and Origin, and stays on loopback."),

    Promise("FIRST-1", ("contact",), "A session that starts before any broker runs is reached like any other, alone or with others in its folder."),
    Promise("FIRST-2", ("contact",), "A path is called working only if it is bound to that session and usable now; what waits too long says why."),
    Promise("FIRST-3", ("contact",), "Stopping or deleting the broker shows no error in a client, blocks no turn and loses nothing."),
    Promise("FIRST-4", ("contact",), "Names and mail stay with their session and pane; live sessions never share or swap them."),
    Promise("FIRST-5", ("contact",), "The human sees in the client's screen who woke the agent, and the first words."),

    Promise("INST-1", ("install",), "Wheel and sdist give every surface, whatever tool installs them."),
    Promise("INST-2", ("install",), "What stands in client configurations outlives upgrades; without the program it is silent; uninstall is byte-exact."),
    Promise("INST-3", ("install",), "`run` puts a session on the mesh without touching global configuration."),
    Promise("INST-4", ("install",), "A client version that is not known to work is named at install, in doctor and in the listing."),
    Promise("INST-5", ("install",), "Every command and snippet of README works verbatim, twice in a row."),
    Promise("INST-6", ("install",), "Each client takes tellwire from its own market, with the tools and the mail."),

    Promise("HUM-1", ("console",), "The operator can always be written to, and its mail shows on every console for 30 days."),
    Promise("HUM-2", ("console",), "Whatever waits for a person is in one list with reason, age and action."),
    Promise("HUM-3", ("console", "web"), "All consoles show the same state at the same sequence."),
    Promise("HUM-4", ("console",), "For any message `why` tells what it waits for and what happens next."),
    Promise("HUM-5", ("console",), "One need makes at most one notice, and none while the person looks or in quiet hours."),
    Promise("HUM-6", ("console", "web"), "No text of an agent is ever interpreted by a console."),
    Promise("HUM-7", ("console", "web"), "Everything can be done by keyboard, without colour and with a screen reader."),
    Promise("HUM-8", ("web",), "`demo` shows it all without a key in one minute and leaves nothing."),

    Promise("REACH-1", ("reach",), "Copilot CLI, Qwen Code and Grok Build pass the delivery matrix."),
    Promise("REACH-2", ("reach",), "Any ACP agent can be put on the mesh, and mail never cancels its turn."),
    Promise("REACH-3", ("reach",), "Mail enters once where two clients read the same configuration files."),
)
# fmt: on


def source_of(identifier: str) -> str:
    """The source of a promise, from the family in its id."""
    family = identifier.rpartition("-")[0]
    return f"founding requirement: {FAMILIES[family]}"


REQUIREMENTS = tuple(
    Requirement(promise.id, stage, source_of(promise.id), promise.text)
    for promise in PROMISES
    for stage in promise.stages
)
