"""Throughput and latency of every engine at one number of clients and one body size."""

from functools import partial

from bench.engine import Engine
from bench.engines.echo import EchoEngine
from bench.engines.floor import FloorEngine
from bench.engines.naive import NaiveEngine
from bench.engines.redis_streams import RedisEngine
from bench.engines.tellwire_broker import TellwireEngine
from bench.report import Detail, Ratio, Section, Target, compare
from bench.rounds import interleave
from bench.workshop import MESSAGES_PER_S, Workshop, load_detail

TARGETS = {
    (100, 200, "redis always"): 4.0,
    (10, 200, "redis always"): 1.8,
    (1000, 200, "redis always"): 5.0,
    (100, 4096, "redis always"): 2.5,
    (10, 4096, "redis always"): 1.3,
    (100, 200, "naive"): 6.0,
}


def engines(peers: frozenset[str]) -> list[Engine]:
    """All that take part, tellwire first."""
    known: list[Engine] = [
        EchoEngine(),
        FloorEngine(),
        RedisEngine("always"),
        RedisEngine("always", "tuned"),
        RedisEngine("everysec"),
        NaiveEngine(),
    ]
    return [TellwireEngine(), *(peer for peer in known if peer.name in peers)]


def measure_load(workshop: Workshop, *, clients: int, body_bytes: int) -> Section:
    """One cell: all engines in turns, each started afresh for each round."""
    shape = workshop.plan.shape(clients, body_bytes)
    contenders = {
        engine.name: partial(workshop.load_afresh, engine, shape) for engine in engines(workshop.plan.peers)
    }
    outcomes = interleave(contenders, workshop.plan.rounds, workshop.tell)
    row = f"{clients:,} client{'s' if clients > 1 else ''}, {body_bytes} B"
    details = [load_detail(row, name, outcome) for name, outcome in outcomes.items()]
    ours, *peers = details
    section = Section(details=details)
    for peer in peers:
        number = TARGETS.get((clients, body_bytes, peer.contender))
        target = None if number is None else Target("≥", number)
        section.ratios.append(compare(f"{row}: durable", MESSAGES_PER_S, ours, peer, "per_s", target=target))
    section.ratios += _floor_ratios(row, details)
    for name in ("redis always", "naive"):
        peer = next(detail for detail in peers if detail.contender == name)
        section.ratios += [
            compare(f"{row}: send→ack p50", "us", ours, peer, "ack_p50_us", better="lower"),
            compare(f"{row}: send→receive p50", "us", ours, peer, "receive_p50_us", better="lower"),
        ]
    return section


def _floor_ratios(row: str, details: list[Detail]) -> list[Ratio]:
    """What the stack could reach at most against Redis: a target above it is out of reach for any broker."""
    known = {detail.contender: detail for detail in details}
    if not {"floor", "redis always"} <= known.keys():
        return []
    floor, redis = known["floor"], known["redis always"]
    return [compare(f"{row}: a broker that does nothing", MESSAGES_PER_S, floor, redis, "per_s")]
