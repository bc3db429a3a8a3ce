"""Interleaved rounds: every contender once per round, in turned order every other round."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from bench.engine import Missing, RoundFailed

Sample = TypeVar("Sample")


@dataclass
class Outcome(Generic[Sample]):
    """What one contender gave: its samples, or why there are none."""

    samples: list[Sample] = field(default_factory=list[Sample])
    missing: str = ""
    failures: list[str] = field(default_factory=list[str])

    def median(self, figure: Callable[[Sample], float]) -> float | None:
        """The median of one figure over all rounds, or None without any."""
        return statistics.median(map(figure, self.samples)) if self.samples else None

    def spread(self, figure: Callable[[Sample], float]) -> tuple[float, float] | None:
        """The smallest and the largest of one figure."""
        values = [figure(sample) for sample in self.samples]
        return (min(values), max(values)) if values else None

    @property
    def why_not(self) -> str:
        """Why there is no figure, in words for the table."""
        if self.samples:
            return ""
        if self.missing:
            return f"missing: {self.missing}"
        return f"failed: {self.failures[-1]}" if self.failures else "not measured"


def interleave(
    contenders: Mapping[str, Callable[[], Sample]], rounds: int, tell: Callable[[str], None]
) -> dict[str, Outcome[Sample]]:
    """Run all contenders `rounds` times; one that is missing is not asked again."""
    outcomes: dict[str, Outcome[Sample]] = {name: Outcome() for name in contenders}
    for number in range(rounds):
        for name in _order(list(contenders), number):
            outcome = outcomes[name]
            if outcome.missing:
                continue
            try:
                outcome.samples.append(contenders[name]())
            except Missing as missing:
                outcome.missing = str(missing)
                tell(f"{name}: missing: {missing}")
            except (RoundFailed, OSError, TimeoutError) as failure:
                outcome.failures.append(f"{type(failure).__name__}: {failure}")
                tell(f"{name}: round {number + 1} failed: {failure}")
                time.sleep(0.1)
    return outcomes


def _order(names: Sequence[str], number: int) -> Sequence[str]:
    return names if number % 2 == 0 else names[::-1]
