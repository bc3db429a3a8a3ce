"""What a run found: ratios for the table, and beneath them each contender's own figures."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Target:
    """What issue 2 and issue 3 ask for, of the ratio or of tellwire's own figure."""

    bound: Literal["≥", "≤"]
    number: float
    of: Literal["ratio", "figure"] = "ratio"

    def met_by(self, ratio: float | None, figure: float | None) -> bool | None:
        """Whether it is met; None if there is nothing to judge."""
        value = ratio if self.of == "ratio" else figure
        if value is None:
            return None
        return value >= self.number if self.bound == "≥" else value <= self.number


@dataclass(frozen=True)
class Ratio:
    """One row: a figure of tellwire against a figure of a peer from the same rounds."""

    row: str
    unit: str
    subject: str
    figure: float | None
    against: str = ""
    peer_figure: float | None = None
    ratio: float | None = None
    target: Target | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """met, missed, or nothing where no target stands or nothing was measured."""
        met = self.target.met_by(self.ratio, self.figure) if self.target else None
        return "" if met is None else "met" if met else "MISSED"


@dataclass(frozen=True)
class Detail:
    """One contender's medians in one row, with the spread of the leading figure."""

    row: str
    contender: str
    unit: str
    figures: Mapping[str, float]
    spread: tuple[float, float] | None
    rounds: int
    missing: str = ""


@dataclass
class Section:
    """What one group of rows found."""

    ratios: list[Ratio] = field(default_factory=list[Ratio])
    details: list[Detail] = field(default_factory=list[Detail])


def compare(
    row: str,
    unit: str,
    ours: Detail,
    theirs: Detail,
    figure: str,
    *,
    better: Literal["higher", "lower", "plain"] = "plain",
    target: Target | None = None,
) -> Ratio:
    """A row from two contenders; `lower` turns the ratio round, so that more than 1 is good for us."""
    a, b = ours.figures.get(figure), theirs.figures.get(figure)
    ratio: float | None = None
    if a and b:
        ratio = b / a if better == "lower" else a / b
    note = "; ".join(f"{detail.contender} {detail.missing}" for detail in (ours, theirs) if detail.missing)
    return Ratio(row, unit, ours.contender, a, theirs.contender, b, ratio, target, note)


def write_json(path: Path, facts: Mapping[str, Any], sections: Mapping[str, Section]) -> None:
    """Save everything measured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {**asdict(ratio), "verdict": ratio.verdict} for part in sections.values() for ratio in part.ratios
    ]
    details = [asdict(detail) for part in sections.values() for detail in part.details]
    path.write_text(json.dumps({**facts, "ratios": rows, "details": details}, indent=1) + "\n")
