"""How the cost of a message grows: with the number of agents, and with the backlog that waits."""

from functools import partial

from bench.engines.tellwire_broker import TellwireEngine
from bench.load import LoadSample, run
from bench.process import settle
from bench.report import Section, compare
from bench.rounds import Outcome, interleave
from bench.rows.pending import store_pending
from bench.workshop import Workshop, load_detail

BODY_BYTES = 200
BUSY_OF_MANY = 10
BACKLOG_CLIENTS = 100
UNIT = "cpu us/msg"


def measure_agents(workshop: Workshop) -> Section:
    """All agents busy, from one to many; and few busy ones among many that are connected and idle."""
    plan = workshop.plan
    contenders = {
        f"tellwire, {count:,} busy": partial(
            workshop.load_afresh, TellwireEngine(), plan.shape(count, BODY_BYTES)
        )
        for count in plan.agents
    }
    most = max(plan.agents)
    few = f"tellwire, {BUSY_OF_MANY} busy of {most:,}"
    idle = most - BUSY_OF_MANY
    contenders[few] = partial(
        workshop.load_afresh, TellwireEngine(), plan.shape(BUSY_OF_MANY, BODY_BYTES, idle=idle)
    )
    outcomes = interleave(contenders, plan.rounds, workshop.tell)
    section = _against_first("growth, agents", outcomes)
    baseline = f"tellwire, {BUSY_OF_MANY} busy"
    if baseline in outcomes:
        by_name = {detail.contender: detail for detail in section.details}
        section.ratios[-1] = compare("growth, agents", UNIT, by_name[few], by_name[baseline], "server_cpu_us")
    return section


def measure_backlog(workshop: Workshop) -> Section:
    """The same load while more and more messages wait for agents that are away."""
    plan = workshop.plan
    shape = plan.shape(BACKLOG_CLIENTS, BODY_BYTES)

    def one_round(waiting: int) -> LoadSample:
        engine = TellwireEngine()
        folder = folders[waiting]
        if not any(folder.iterdir()):
            with workshop.running(engine, folder):
                run(store_pending(engine, waiting, workshop.bodies))
                settle(engine.pid)
        return workshop.load_in(folder, engine, shape)

    folders = {waiting: workshop.root / f"backlog-{waiting}" for waiting in plan.pending}
    for folder in folders.values():
        folder.mkdir()
    contenders = {f"tellwire, {waiting:,} pending": partial(one_round, waiting) for waiting in plan.pending}
    return _against_first("growth, backlog", interleave(contenders, plan.rounds, workshop.tell))


def _against_first(row: str, outcomes: dict[str, Outcome[LoadSample]]) -> Section:
    details = [load_detail(row, name, outcome) for name, outcome in outcomes.items()]
    first, *others = details
    ratios = [compare(row, UNIT, other, first, "server_cpu_us") for other in others]
    return Section(ratios, details)
