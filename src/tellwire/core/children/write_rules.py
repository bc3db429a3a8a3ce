"""Guards: where an agent may write, computed in advance. `relay/guard` checks writes against them."""

from __future__ import annotations

import msgspec

from tellwire.core.children.scopes import by_depth, claims_of, is_scoped, judge, outside, overlaps
from tellwire.core.state import State

WRITE = "write"
"""What was refused, as the record has it."""
PLACE = "{path}"
"""In a reason: the path that is asked about."""


class GuardRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether an agent may write where a rule says."""

    path: str
    recursive: bool = True
    reason: str = ""
    """Why not; empty: it may."""


class Guard(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that an agent may write: the first rule that covers a path decides."""

    rules: list[GuardRule]
    otherwise: str
    """Why a scoped agent may not write anywhere else; empty for one without a scope, which may."""


def guard_of(state: State, agent: str) -> Guard:
    """What `may_write` says of every path at once.

    Claims that do not touch a scoped agent's own rules are left out: what lies outside of those is refused
    anyway.
    """
    scoped = is_scoped(state, agent)
    own = [claim.rule for claim in claims_of(state, agent) if claim.rule.access == "write"]
    rules: list[GuardRule] = []
    for owner, claim in by_depth(state):
        rule = claim.rule
        if not scoped or any(overlaps(rule, each) for each in own):
            verdict = judge(state, agent, PLACE, owner, claim)
            rules.append(GuardRule(rule.path, rule.recursive, "" if verdict.allowed else verdict.reason))
    return Guard(rules, outside(state, agent, PLACE) if scoped else "")


def is_guarded(state: State, agent: str) -> bool:
    """Whether there is anything that an agent may not write."""
    if is_scoped(state, agent):
        return True
    return any(owner != agent for owner, _ in by_depth(state))
