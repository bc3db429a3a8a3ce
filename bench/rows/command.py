"""Whole processes: what one `tellwire send` costs, against an interpreter that does nothing, and hcom."""

import statistics
from collections.abc import Callable
from pathlib import Path

from bench.bodies import Bodies
from bench.command_line import LISTEN_S, CommandLine
from bench.engine import Missing, RoundFailed
from bench.engines import hcom
from bench.engines.tellwire_broker import COMMAND, TellwireEngine
from bench.load import connect, disconnect, run
from bench.report import Section, Target, compare
from bench.rounds import interleave
from bench.rows.stored import BARE_PYTHON, bare_python_ms
from bench.workshop import Workshop, value_detail

BODY_BYTES = 200
AGENTS = 20
MANY = 1000
EVERYDAY = Target("≤", 2.0)


def measure_commands(workshop: Workshop) -> Section:
    """Sending processes, and a send to a listener that is blocked."""
    section = Section()
    with workshop.folder() as folder, workshop.folder() as home:
        engine = TellwireEngine()
        with workshop.running(engine, home):
            rival = _installed(workshop, folder)
            _measure_send(workshop, engine, rival, section)
            _measure_listen(workshop, engine, rival, section)
            _measure_quick(workshop, engine, section)
    return section


def tellwire_line(engine: TellwireEngine) -> CommandLine:
    """`tellwire send` and `tellwire inbox --wait`, between two names that the command registered.

    Raises:
        Missing: the command cannot do that yet.
    """
    for name in ("send", "inbox", "register"):
        if engine.command(name, "--help").returncode != 0:
            raise Missing(f"`tellwire {name}` does not exist yet")
    for agent in ("alice", "bob"):
        joined = engine.command("register", agent)
        if joined.returncode != 0:
            raise RoundFailed(f"tellwire register {agent}: {joined.stderr.strip()}")
    return CommandLine(
        name="tellwire",
        send=[str(COMMAND), "send", "--as", "alice", "bob"],
        listen=[str(COMMAND), "inbox", "--as", "bob", "--wait", str(LISTEN_S), "--json"],
        environment=engine.environment(),
    )


def _installed(workshop: Workshop, folder: Path) -> Callable[[], CommandLine]:
    """hcom, or the same reason again each time it is asked for."""
    try:
        line = hcom.install(folder)
    except Missing as missing:
        reason = str(missing)
        workshop.tell(f"hcom: missing: {reason}")

        def absent() -> CommandLine:
            raise Missing(reason)

        return absent
    return lambda: line


def _measure_send(
    workshop: Workshop, engine: TellwireEngine, rival: Callable[[], CommandLine], section: Section
) -> None:
    row, repeats, bodies = "one send, whole process", workshop.plan.command_repeats, workshop.bodies
    outcomes = interleave(
        {
            "tellwire send": lambda: _median_send_ms(tellwire_line(engine), repeats, bodies),
            BARE_PYTHON: lambda: statistics.median(bare_python_ms() for _ in range(repeats)),
            "hcom send": lambda: _median_send_ms(rival(), repeats, bodies),
        },
        workshop.plan.rounds,
        workshop.tell,
    )
    ours, bare, theirs = (value_detail(row, name, "ms", outcome) for name, outcome in outcomes.items())
    section.details += [ours, bare, theirs]
    section.ratios += [
        compare(row, "ms", ours, bare, "value", target=EVERYDAY),
        compare(row, "ms", ours, theirs, "value"),
        compare(row, "ms", theirs, bare, "value"),
    ]


def _measure_listen(
    workshop: Workshop, engine: TellwireEngine, rival: Callable[[], CommandLine], section: Section
) -> None:
    row, listens, bodies = "send → blocked listener, processes", workshop.plan.listens, workshop.bodies
    outcomes = interleave(
        {
            "tellwire inbox --wait": lambda: _median_listen_ms(tellwire_line(engine), listens, bodies),
            "hcom listen": lambda: _median_listen_ms(rival(), listens, bodies),
        },
        min(workshop.plan.rounds, 3),
        workshop.tell,
    )
    ours, theirs = (value_detail(row, name, "ms", outcome) for name, outcome in outcomes.items())
    section.details += [ours, theirs]
    section.ratios.append(compare(row, "ms", ours, theirs, "value"))


def _measure_quick(workshop: Workshop, engine: TellwireEngine, section: Section) -> None:
    """The commands that a person or a status bar runs often."""
    run(_know(engine, AGENTS))
    for words in (["list", "--all"], ["inbox", "--as", "alice"], ["status", "--json"], ["glance", "--json"]):
        _measure_command(workshop, engine, words, section)
    run(_know(engine, MANY))
    _measure_command(workshop, engine, ["list", "--all"], section, agents=MANY, target=Target("≤", 8.0))


def _measure_command(
    workshop: Workshop,
    engine: TellwireEngine,
    words: list[str],
    section: Section,
    *,
    agents: int = AGENTS,
    target: Target = EVERYDAY,
) -> None:
    *first, last = words
    name = f"tellwire {words[0]}"
    row = f"{name}, {agents:,} agents"
    line = CommandLine(name, [str(COMMAND), *first], [], engine.environment())
    outcomes = interleave(
        {
            name: lambda: statistics.median(line.send_ms(last) for _ in range(workshop.plan.command_repeats)),
            BARE_PYTHON: lambda: statistics.median(
                bare_python_ms() for _ in range(workshop.plan.command_repeats)
            ),
        },
        workshop.plan.rounds,
        workshop.tell,
    )
    ours, bare = (value_detail(row, name, "ms", outcome) for name, outcome in outcomes.items())
    section.details += [ours, bare]
    section.ratios.append(compare(row, "ms", ours, bare, "value", target=target))


async def _know(engine: TellwireEngine, agents: int) -> None:
    await disconnect(await connect(engine, agents))


def _median_send_ms(line: CommandLine, repeats: int, bodies: Bodies) -> float:
    return statistics.median(line.send_ms(bodies.next(BODY_BYTES)[1]) for _ in range(repeats))


def _median_listen_ms(line: CommandLine, listens: int, bodies: Bodies) -> float:
    line.drain()
    return statistics.median(line.send_to_listener_ms(bodies.next(BODY_BYTES)[1]) for _ in range(listens))
