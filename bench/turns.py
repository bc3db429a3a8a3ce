"""Short things by turns: each contender once, in an order by lot, again and again: all share the noise."""

import random
import statistics
from collections.abc import Callable, Mapping

from bench.engine import Missing, RoundFailed
from bench.rounds import Outcome


def by_turns(
    contenders: Mapping[str, Callable[[], float]],
    rounds: int,
    repeats: int,
    before: Callable[[], None],
    tell: Callable[[str], None],
) -> dict[str, Outcome[float]]:
    """For each contender the medians of its rounds; `before` is called before each round.

    One that is missing, or fails once, is not asked again in that round and has no figure of it.
    """
    outcomes: dict[str, Outcome[float]] = {name: Outcome() for name in contenders}
    lots = random.Random(1)
    for number in range(rounds):
        before()
        times = {name: list[float]() for name, outcome in outcomes.items() if not outcome.missing}
        for _ in range(repeats):
            for name in lots.sample(list(times), len(times)):
                try:
                    times[name].append(contenders[name]())
                except Missing as missing:
                    del times[name]
                    outcomes[name].missing = str(missing)
                    tell(f"{name}: missing: {missing}")
                except (RoundFailed, OSError) as failure:
                    del times[name]
                    outcomes[name].failures.append(str(failure))
                    tell(f"{name}: round {number + 1} failed: {failure}")
        for name, some in times.items():
            outcomes[name].samples.append(statistics.median(some))
    return outcomes
