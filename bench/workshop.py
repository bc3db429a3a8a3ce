"""What every group of rows is given: the sizes of the run, bodies, folders, and a way to tell progress."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.bodies import Bodies
from bench.engine import Engine
from bench.load import LoadSample, Shape, measure, run
from bench.plan import Plan
from bench.process import wait_for_quiet
from bench.report import Detail
from bench.rounds import Outcome, Sample

MESSAGES_PER_S = "msg/s"


@dataclass
class Workshop:
    """One run's tools; `root` is its temporary folder."""

    plan: Plan
    root: Path
    bodies: Bodies = field(default_factory=Bodies)

    def tell(self, words: str) -> None:
        """Say on stderr how far it is."""
        print(f"bench: {words}", file=sys.stderr, flush=True)

    @contextmanager
    def folder(self) -> Generator[Path, None, None]:
        """A fresh folder, gone afterwards."""
        path = Path(tempfile.mkdtemp(dir=self.root))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def running(self, engine: Engine, folder: Path) -> Generator[Engine, None, None]:
        """The engine started in this folder, stopped afterwards whatever happened."""
        try:
            engine.start(folder)
            yield engine
        finally:
            engine.stop()

    def load_afresh(self, engine: Engine, shape: Shape) -> LoadSample:
        """One round on an engine that was just started with nothing in store."""
        with self.folder() as folder:
            return self.load_in(folder, engine, shape)

    def load_in(self, folder: Path, engine: Engine, shape: Shape) -> LoadSample:
        """One round on an engine that was just started on what lies in the folder."""
        wait_for_quiet(self.plan.patience_s)
        with self.running(engine, folder):
            return run(measure(engine, shape, self.bodies))


def load_detail(row: str, contender: str, outcome: Outcome[LoadSample]) -> Detail:
    """A contender's medians in a row of load."""
    figures: dict[str, float] = {}
    for key in LoadSample.__dataclass_fields__:
        value = outcome.median(_getter(key))
        if value is not None:
            figures[key] = value
    spread = outcome.spread(_getter("per_s"))
    return Detail(row, contender, MESSAGES_PER_S, figures, spread, len(outcome.samples), outcome.why_not)


def value_detail(row: str, contender: str, unit: str, outcome: Outcome[float]) -> Detail:
    """A contender's median in a row with a single figure."""
    return part_detail(row, contender, unit, outcome, float)


def part_detail(
    row: str, contender: str, unit: str, outcome: Outcome[Sample], figure: Callable[[Sample], float]
) -> Detail:
    """A contender's median of one figure of its samples, in a row of its own."""
    median = outcome.median(figure)
    figures = {} if median is None else {"value": median}
    return Detail(
        row, contender, unit, figures, outcome.spread(figure), len(outcome.samples), outcome.why_not
    )


def _getter(key: str) -> Callable[[LoadSample], float]:
    return lambda sample: getattr(sample, key)
