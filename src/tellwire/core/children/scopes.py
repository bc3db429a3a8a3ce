"""Scopes: who may write where. Claims are raw; what an agent may really write is derived, never stored.

Writing is exclusive on the machine. A child's rules lie within its parent's, and while the child has them the
parent may only read there; when the child is gone they are the parent's again without an event, because the
parent's own claim never shrank. So of several claims on one path, all of one agent and its ancestors, the
deepest owns it. An agent that was given no scope may write wherever nobody has a claim.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tellwire.core.agents.roster import caller_agent, has_ended
from tellwire.core.context import Context, Decision
from tellwire.core.state import Agent, Claim, State
from tellwire.protocol.addresses import shorten
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events.children import ScopeClaimed, ScopeReleased
from tellwire.protocol.operations.scopes import (
    ClaimRecord,
    Claims,
    ClaimScope,
    ListScopes,
    Ownership,
    ReleaseScope,
    ScopeRecord,
    ScopeRule,
    Scopes,
    WhoOwns,
)

ENFORCED = "enforced"
"""What a client's own sandbox or rules hold."""
ADVISORY = "advisory"
"""What a hook or a plugin holds; a hook that is killed lets a write pass."""
HELD_BY = {"rules": "held by its client's rules; shell commands are not checked"}
"""What a client's own does not hold."""
PLUGIN = "plugin"
"""The path of a client that has a plugin of ours."""


class WriteVerdict(msgspec.Struct, frozen=True):
    """Whether an agent may write to a path, in words that its model understands."""

    allowed: bool
    reason: str = ""
    owner: str = ""
    """The id of the agent whose the path is; empty if nobody has claimed it."""
    claim: Claim | None = None


# -- whose a path is ----------------------------------------------------------------------------------


def ancestors(state: State, agent: str) -> list[str]:
    """The parents of an agent, nearest first."""
    line: list[str] = []
    while (child := state.children.get(agent)) is not None and child.parent and child.parent not in line:
        agent = child.parent
        line.append(agent)
    return line


def claims_of(state: State, agent: str) -> list[Claim]:
    """What an agent holds at this moment; a claim whose time is over is none."""
    awake = state.awake
    return [claim for claim in state.claims.get(agent, ()) if not claim.until or claim.until > awake]


def is_scoped(state: State, agent: str) -> bool:
    """Whether an agent may write within its own rules only."""
    child = state.children.get(agent)
    return child is not None and child.scoped


def owner_of(
    state: State, path: str, claims: Iterable[tuple[str, Claim]] | None = None
) -> tuple[str, Claim] | None:
    """Who alone may write to a path, and by which claim; `claims` as of `by_depth`, if known."""
    claims = by_depth(state) if claims is None else claims
    return next((found for found in claims if covers_path(found[1].rule, path)), None)


def by_depth(state: State) -> list[tuple[str, Claim]]:
    """All claims to write, of the deepest agents first."""
    found = [
        (len(ancestors(state, agent)), agent, claim)
        for agent in state.claims
        for claim in claims_of(state, agent)
        if claim.rule.access == "write"
    ]
    return [(agent, claim) for _, agent, claim in sorted(found, key=lambda each: -each[0])]


def may_write(
    state: State, agent: str, path: str, claims: Iterable[tuple[str, Claim]] | None = None
) -> WriteVerdict:
    """Whether an agent may write to a path (CHILD-5); `agent` is empty for who is none.

    A caller that asks about many paths computes `claims` once, with `by_depth`.

    Raises:
        TellwireError: `path_invalid`.
    """
    check_path(path)
    owner, claim = owner_of(state, path, claims) or ("", None)
    return judge(state, agent, path, owner, claim)


def judge(state: State, agent: str, path: str, owner: str, claim: Claim | None) -> WriteVerdict:
    """Whether an agent may write to a path that is an owner's by a claim."""
    if owner and owner == agent:
        return WriteVerdict(True, "It is yours.", owner, claim)
    if agent not in state.agents:
        return WriteVerdict(True, "", owner, claim)
    if owner and agent in ancestors(state, owner):
        reason = f"You gave {path} to {_name(state, owner)}; only it may write there until it ends."
        return WriteVerdict(False, f"{reason} Ask it, or stop it first.", owner, claim)
    scoped = is_scoped(state, agent)
    if claim is not None and not (scoped and owner in ancestors(state, agent)):
        reason = f"{path} belongs to {_name(state, owner)} ({claim.rule})."
        return WriteVerdict(False, f"{reason} Ask it, or do something else.", owner, claim)
    if scoped:
        return WriteVerdict(False, outside(state, agent, path), owner, claim)
    return WriteVerdict(True, "Nobody has claimed it.")


def outside(state: State, agent: str, path: str) -> str:
    """The refusal for a path that a scoped agent was not given."""
    writable = [claim.rule.path for claim in claims_of(state, agent) if claim.rule.access == "write"]
    where = f"You may write in {', '.join(writable)} only" if writable else "You may not write anywhere"
    parent = state.agents.get(state.children[agent].parent)
    ask = f"ask {parent.name} for more, or leave it to {parent.name}" if parent else "ask the operator"
    return f"{path} is outside your scope. {where}; {ask}."


def _name(state: State, agent: str) -> str:
    known = state.agents.get(agent)
    return agent if known is None else known.name


# -- what can be given --------------------------------------------------------------------------------


def check_free(state: State, agent: Agent, rules: Iterable[ScopeRule]) -> None:
    """What somebody claims for itself must not be another's.

    Claims of its own children stay theirs and hinder it only where nothing else would be left.

    Raises:
        TellwireError: `scope_conflict`.
    """
    for rule in rules:
        for other in _writers(state, rule, but={agent.id}):
            beneath = agent.id in ancestors(state, other[0])
            if not beneath or covers(other[1].rule, rule):
                raise _conflict(state, rule, *other)


def check_delegation(state: State, parent: Agent, rules: Iterable[ScopeRule]) -> None:
    """What a parent gives to a child must be its own to give, and nobody else's.

    Raises:
        TellwireError: `scope_conflict` or `scope_outside`.
    """
    own = claims_of(state, parent.id)
    for rule in rules:
        held = any(covers(claim.rule, rule) for claim in own)
        # What the parent holds lies within what those above it hold.
        above = set(ancestors(state, parent.id)) if held else set[str]()
        for other in _writers(state, rule, but={parent.id, *above}):
            raise _conflict(state, rule, *other)
        if not held and is_scoped(state, parent.id):
            raise TellwireError("scope_outside", f"{rule} is outside the scope of {parent.name!r}.")


def _writers(state: State, rule: ScopeRule, *, but: set[str]) -> list[tuple[str, Claim]]:
    """The agents whose claims conflict with a rule, the deepest child first."""
    found: list[tuple[int, str, Claim]] = []
    for agent in state.claims:
        if agent in but:
            continue
        for claim in claims_of(state, agent):
            if first_conflict(rule, [claim.rule]) is not None:
                found.append((len(ancestors(state, agent)), agent, claim))
    return [(agent, claim) for _, agent, claim in sorted(found, key=lambda each: -each[0])]


def _conflict(state: State, rule: ScopeRule, owner: str, claim: Claim) -> TellwireError:
    name = _name(state, owner)
    return TellwireError(
        "scope_conflict",
        f"{rule} is not free: {name!r} holds {claim.rule}.",
        f"Ask {name}, claim less, or wait until it is released.",
    )


# -- claiming -----------------------------------------------------------------------------------------


def decide_claim_scope(state: State, operation: ClaimScope, context: Context) -> Decision:
    """Claim paths for the caller, all or none; claims that it holds already are extended."""
    agent = caller_agent(state, context)
    limits = context.limits
    for_s = limits.claim_s if operation.for_s is None else operation.for_s
    if not 0 < for_s <= limits.claim_s_max:
        raise TellwireError("bad_request", f"`for_s` must be above 0 and at most {limits.claim_s_max:.0f}.")
    rules = as_rules(operation.rules)
    if not rules:
        raise TellwireError("bad_request", "No path was given.")
    check_rules(rules, limits.claims_max)
    if is_scoped(state, agent.id):
        raise TellwireError("scope_given", f"The scope of {agent.name!r} was set by its parent.")
    check_free(state, agent, rules)
    held = claims_of(state, agent.id)
    new = [rule for rule in rules if rule not in [claim.rule for claim in held]]
    kept = [claim for claim in held if claim.rule not in rules]
    if len(kept) + len(rules) > limits.claims_max:
        raise TellwireError("limit_exceeded", f"More than {limits.claims_max} claims.")
    until = context.awake + for_s
    claims = [*kept, *(Claim(rule, until) for rule in rules)]
    return Decision(_held(agent, claims, context, changed=bool(new)), [ScopeClaimed(agent.id, rules, until)])


def decide_release_scope(state: State, operation: ReleaseScope, context: Context) -> Decision:
    """Release claims; releasing what is not held is harmless."""
    agent = caller_agent(state, context)
    if len(operation.paths) > context.limits.claims_max:
        raise TellwireError("limit_exceeded", f"More than {context.limits.claims_max} paths.")
    paths = {check_path(path) for path in operation.paths}
    held = claims_of(state, agent.id)
    given = [claim.rule for claim in held if not paths or claim.rule.path in paths]
    kept = [claim for claim in held if claim.rule not in given]
    events = [ScopeReleased(agent.id, given, "asked")] if given else []
    return Decision(_held(agent, kept, context, changed=bool(given)), list(events))


def apply_scope_claimed(state: State, event: ScopeClaimed) -> None:
    """The rules are held; those that were before, until later."""
    if event.agent in state.agents:
        kept = [claim for claim in state.claims.get(event.agent, ()) if claim.rule not in event.rules]
        state.claims[event.agent] = [*kept, *(Claim(rule, event.until) for rule in event.rules)]


def apply_scope_released(state: State, event: ScopeReleased) -> None:
    """The rules are free, or the parent's again."""
    kept = [claim for claim in state.claims.get(event.agent, ()) if claim.rule not in event.rules]
    if kept:
        state.claims[event.agent] = kept
    else:
        state.claims.pop(event.agent, None)


def released(state: State, context: Context) -> list[ScopeReleased]:
    """Release claims that have expired, and those of agents that will not come back."""
    events: list[ScopeReleased] = []
    for agent_id, claims in state.claims.items():
        agent = state.agents.get(agent_id)
        gone = agent is None or (has_ended(agent) and not context.alive(agent.process))
        if gone and agent_id not in state.children:  # a child's end is a fact of its own
            events.append(ScopeReleased(agent_id, [claim.rule for claim in claims], "gone"))
            continue
        over = [claim.rule for claim in claims if claim.until and claim.until <= context.awake]
        if over:
            events.append(ScopeReleased(agent_id, over, "expired"))
    return events


def inherit_claims(state: State, before: str, heir: str) -> None:
    """An agent goes on as another one, with what it holds."""
    claims = state.claims.pop(before, [])
    rules = [claim.rule for claim in claims]
    kept = [claim for claim in state.claims.get(heir, []) if claim.rule not in rules]
    if kept or claims:
        state.claims[heir] = [*kept, *claims]


# -- what holds it ------------------------------------------------------------------------------------


def holding(state: State, agent: Agent, context: Context) -> tuple[str, str]:
    """What keeps an agent to what it may write: `enforced` or `advisory`, and why."""
    child = state.children.get(agent.id)
    if child is not None and child.scoped and child.held_by:
        return ENFORCED, HELD_BY.get(child.held_by, f"held by its client's {child.held_by}")
    if context.activity(agent.id):
        by = "plugin" if any(path.name == PLUGIN for path in context.paths(agent.id)) else "hook"
        return ADVISORY, f"asked by its {by}; shell commands are not checked"
    return ADVISORY, "no hook of its client has run yet"


# -- looking ------------------------------------------------------------------------------------------


def decide_who_owns(state: State, operation: WhoOwns, context: Context) -> Decision:
    """Who owns a path, and whether the caller may write there."""
    path = check_path(operation.path)
    verdict = may_write(state, context.caller.agent, path)
    readers = [
        agent.name
        for agent in state.agents.values()
        if any(covers_path(claim.rule, path) for claim in claims_of(state, agent.id))
        and agent.id != verdict.owner
    ]
    reply = Ownership(
        path=path,
        owner=_name(state, verdict.owner) if verdict.owner else "",
        rule=None if verdict.claim is None else _record(verdict.claim, context),
        through=[_name(state, agent) for agent in ancestors(state, verdict.owner)],
        readers=sorted(readers, key=str.lower),
        may_write=verdict.allowed,
        reason=verdict.reason,
    )
    if not verdict.allowed:
        enforced, why = holding(state, state.agents[context.caller.agent], context)
        reply = msgspec.structs.replace(reply, enforced=enforced, why=why)
    return Decision(reply)


def decide_list_scopes(state: State, _operation: ListScopes, context: Context) -> Decision:
    """All that is held, and by children who hold nothing too: parents before their children."""
    holders = {agent for agent in state.claims if claims_of(state, agent)} | set(state.children)
    holders |= {child.parent for child in state.children.values() if child.parent}
    known = [state.agents[agent] for agent in holders if agent in state.agents]
    known.sort(key=lambda agent: [*reversed(_line_names(state, agent.id)), agent.name.lower()])
    return Decision(Scopes(scopes=[_scope(state, agent, context) for agent in known]))


def _line_names(state: State, agent: str) -> list[str]:
    return [_name(state, parent).lower() for parent in ancestors(state, agent)]


def _scope(state: State, agent: Agent, context: Context) -> ScopeRecord:
    child = state.children.get(agent.id)
    enforced, why = holding(state, agent, context)
    return ScopeRecord(
        name=agent.name,
        parent=_name(state, child.parent) if child is not None and child.parent else "",
        scoped=is_scoped(state, agent.id),
        enforced=enforced,
        why=why,
        status="online" if agent.online else "offline",
        rules=[_record(claim, context) for claim in claims_of(state, agent.id)],
    )


def _held(agent: Agent, claims: list[Claim], context: Context, *, changed: bool) -> Claims:
    return Claims(name=agent.name, rules=[_record(claim, context) for claim in claims], changed=changed)


def _record(claim: Claim, context: Context) -> ClaimRecord:
    rule = claim.rule
    until = context.now + claim.until - context.awake if claim.until else 0.0
    return ClaimRecord(path=rule.path, access=rule.access, recursive=rule.recursive, until=until)


# -- rules about paths ----------------------------------------------------------------------------------
# All on text: absolute paths, normalised before they come here. Symbolic links, `..`, case and what does not
# exist are resolved by the caller; a path that is still relative or dotted is refused.

PATH_LENGTH_MAX = 4096


def check_path(path: str) -> str:
    """The path, if it is one that rules can be about.

    Raises:
        TellwireError: `path_invalid`.
    """
    if len(path) > PATH_LENGTH_MAX:
        raise TellwireError("path_invalid", f"A path is longer than {PATH_LENGTH_MAX} characters.")
    if not path.startswith("/"):
        raise TellwireError("path_invalid", f"{shorten(path)} is not an absolute path.")
    parts = path[1:].split("/")
    if path != "/" and any(part in ("", ".", "..") for part in parts):
        raise TellwireError("path_invalid", f"{shorten(path)} is not a normalised path.")
    if "\0" in path:
        raise TellwireError("path_invalid", "A path must not contain a NUL character.")
    return path


def check_rules(rules: list[ScopeRule], rules_max: int) -> None:
    """Every path is one, and there are not too many.

    Raises:
        TellwireError: `path_invalid` or `limit_exceeded`.
    """
    if len(rules) > rules_max:
        raise TellwireError("limit_exceeded", f"More than {rules_max} rules.")
    for rule in rules:
        check_path(rule.path)


def as_rules(rules: Iterable[ScopeRule | str]) -> list[ScopeRule]:
    """Each rule once; a path alone is one to write there and beneath."""
    return list(dict.fromkeys(ScopeRule(rule) if isinstance(rule, str) else rule for rule in rules))


def is_beneath(path: str, folder: str) -> bool:
    """Whether a path lies in a folder, at any depth; not the folder itself."""
    return folder == "/" != path or path.startswith(f"{folder}/")


def is_directly_in(path: str, folder: str) -> bool:
    """Whether a path is an entry of a folder."""
    return path != "/" and (path.rpartition("/")[0] or "/") == folder


def covers_path(rule: ScopeRule, path: str) -> bool:
    """Whether a rule applies to a path."""
    if path == rule.path:
        return True
    return is_beneath(path, rule.path) if rule.recursive else is_directly_in(path, rule.path)


def covers(outer: ScopeRule, inner: ScopeRule) -> bool:
    """Whether all that `inner` is about lies within `outer`; what may be written may be read."""
    if inner.access == "write" and outer.access != "write":
        return False
    if outer.recursive:
        return covers_path(outer, inner.path)
    # A rule of one layer holds a rule beneath it only if that one is of one layer, and the same.
    return not inner.recursive and inner.path == outer.path


def overlaps(one: ScopeRule, other: ScopeRule) -> bool:
    """Whether there can be a path that both rules are about.

    True for both depths of both: a rule's paths hang together beneath its own, so one begins in the other.
    """
    return covers_path(one, other.path) or covers_path(other, one.path)


def first_conflict(rule: ScopeRule, others: Iterable[ScopeRule]) -> ScopeRule | None:
    """The first of the rules that cannot be held by another agent at the same time; only writing excludes."""
    if rule.access != "write":
        return None
    return next((other for other in others if other.access == "write" and overlaps(rule, other)), None)
