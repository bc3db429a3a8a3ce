"""Guards: where an agent may write, worked out before anybody asks, for a hook that cannot ask the broker."""

from __future__ import annotations

import msgspec

from tellwire.core.claims import overlaps
from tellwire.core.scopes import by_depth, claims_of, is_scoped, judge, outside
from tellwire.core.state import State

PLACE = "{path}"
"""In a reason: the path that is asked about."""


class GuardRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether a scoped agent may write where a rule says."""

    path: str
    recursive: bool = True
    reason: str = ""
    """Why not; empty: it may."""


class Guard(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that a scoped agent may write: the first rule that covers a path decides."""

    rules: list[GuardRule]
    otherwise: str
    """Why it may not write anywhere else."""


def guard_of(state: State, agent: str) -> Guard | None:
    """What `may_write` says of every path at once; None for an agent that has no scope.

    Claims that do not touch its own rules are left out: what lies outside of those is refused anyway.
    """
    if not is_scoped(state, agent):
        return None
    own = [claim.rule for claim in claims_of(state, agent) if claim.rule.access == "write"]
    rules: list[GuardRule] = []
    for owner, claim in by_depth(state):
        rule = claim.rule
        if any(overlaps(rule, each) for each in own):
            verdict = judge(state, agent, PLACE, owner, claim)
            rules.append(GuardRule(rule.path, rule.recursive, "" if verdict.allowed else verdict.reason))
    return Guard(rules, outside(state, agent, PLACE))


def is_guarded(state: State, agent: str) -> bool:
    """Whether there is anything that an agent may not write."""
    if is_scoped(state, agent):
        return True
    return any(owner != agent for owner, _ in by_depth(state))
