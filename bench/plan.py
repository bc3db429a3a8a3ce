"""How much is measured: the full run, and the quick one of about a minute."""

from dataclasses import dataclass

from bench.load import Shape


@dataclass(frozen=True)
class Plan:
    """Sizes of a run; `patience_s` is how long a round waits for the rest of the machine to be quiet."""

    name: str
    rounds: int
    patience_s: float
    peers: frozenset[str]
    window_s: float
    warm_up_s: float
    cells: tuple[tuple[int, int], ...]
    stored: int
    tail: int
    pending: tuple[int, ...]
    agents: tuple[int, ...]
    connections: int
    command_repeats: int
    listens: int
    memory_rounds: int
    mcp_starts: int
    mcp_calls: int
    mcp_sessions: int
    mcp_stall_s: float
    hook_calls: int
    hook_processes: int
    reaches: int

    @property
    def judges(self) -> bool:
        """Whether the targets hold for these sizes; those that name a size are set for the full ones."""
        return self.name == "full"

    def shape(self, clients: int, body_bytes: int, idle: int = 0) -> Shape:
        """One round's load; many clients need longer until all of them turn round evenly."""
        many = clients >= 1000
        return Shape(
            clients=clients,
            body_bytes=body_bytes,
            window_s=max(self.window_s, 1.5) if many else self.window_s,
            warm_up_s=max(self.warm_up_s, 1.0) if many else self.warm_up_s,
            idle=idle,
        )


FULL = Plan(
    name="full",
    rounds=5,
    patience_s=10.0,
    peers=frozenset({"echo", "floor", "redis always", "redis always tuned", "redis everysec", "naive"}),
    window_s=0.8,
    warm_up_s=0.25,
    cells=tuple((clients, body_bytes) for body_bytes in (200, 4096) for clients in (1, 10, 100, 1000)),
    stored=1_000_000,
    tail=20_000,
    pending=(0, 1_000, 10_000, 100_000),
    agents=(1, 10, 100, 1000),
    connections=1000,
    command_repeats=15,
    listens=3,
    memory_rounds=3,
    mcp_starts=9,
    mcp_calls=1_000,
    mcp_sessions=50,
    mcp_stall_s=1.5,
    hook_calls=64,
    hook_processes=25,
    reaches=5,
)

QUICK = Plan(
    name="quick",
    rounds=2,
    patience_s=0.0,
    peers=frozenset({"echo", "redis always", "naive"}),
    window_s=0.3,
    warm_up_s=0.1,
    cells=((10, 200), (100, 200)),
    stored=10_000,
    tail=2_000,
    pending=(0, 5_000),
    agents=(10, 100),
    connections=1000,
    command_repeats=3,
    listens=1,
    memory_rounds=1,
    mcp_starts=3,
    mcp_calls=200,
    mcp_sessions=50,
    mcp_stall_s=0.5,
    hook_calls=12,
    hook_processes=5,
    reaches=2,
)
