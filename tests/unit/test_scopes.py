"""Who may write where: claims, delegation, their return. Tests named `row_…` are rows of the scope table."""

from __future__ import annotations

import pytest

from tellwire.core.context import NoteChildEnd, NoteChildStarted, StartBroker
from tellwire.core.limits import Limits
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events.children import ScopeClaimed, ScopeReleased
from tellwire.protocol.operations.agents import UpdateAgent
from tellwire.protocol.operations.children import Children, ListChildren
from tellwire.protocol.operations.scopes import (
    Claims,
    ClaimScope,
    ListScopes,
    Ownership,
    ReleaseScope,
    ScopeRule,
    Scopes,
    WhoOwns,
)
from tests.unit.family import Family, rule, write
from tests.unit.mesh import OPERATOR, SCRIPT, refused


@pytest.fixture
def mesh() -> Family:
    mesh = Family()
    for name in ("alice", "bob", "carol"):
        mesh.register(name, kind="codex")
    return mesh


def owner(mesh: Family, path: str, name: str = "") -> Ownership:
    return mesh.run(WhoOwns(path=path), mesh.caller(name) if name else OPERATOR)


def release(mesh: Family, name: str, *paths: str) -> Claims:
    return mesh.run(ReleaseScope(paths=list(paths)), mesh.caller(name))


# -- free claims --------------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_a_claim_keeps_others_out_and_nobody_else(mesh: Family) -> None:
    reply = mesh.claim("alice", "/p/src")
    assert (reply.changed, [each.path for each in reply.rules]) == (True, ["/p/src"])
    assert reply.rules[0].until == pytest.approx(mesh.now + mesh.limits.claim_s)
    assert mesh.writers("/p/src/a.py") == ["alice"]
    assert mesh.writers("/p/doc") == ["alice", "bob", "carol"]
    verdict = mesh.judge("bob", "/p/src/a.py")
    assert verdict.reason.startswith("/p/src/a.py belongs to alice (write /p/src).")
    told = owner(mesh, "/p/src/a.py", "bob")
    assert (told.owner, told.may_write, told.reason) == ("alice", False, verdict.reason)
    assert told.rule is not None
    assert told.rule.path == "/p/src"
    assert owner(mesh, "/p/src/a.py").may_write, "a person may do what a person likes"
    assert owner(mesh, "/p/doc", "bob") == Ownership(path="/p/doc", reason="Nobody has claimed it.")


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_row_register_refuses_write_overlap_naming_owner_and_rule(mesh: Family) -> None:
    mesh.claim("alice", "/p/src")
    for path in ("/p/src", "/p/src/deep/er", "/p", "/"):
        with refused("scope_conflict") as caught:
            mesh.claim("bob", path)
        assert caught.value.message == f"write {path} is not free: 'alice' holds write /p/src."
        assert "alice" in caught.value.advice
    assert mesh.claim("bob", rules=[rule("/p/src", "read")]).changed
    assert mesh.claim("bob", "/p/src-2").changed


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_row_register_reports_the_deepest_owner_in_the_tree(mesh: Family) -> None:
    mesh.claim("alice", "/p")
    mesh.bear("alice", "kid", "/p/src")
    mesh.bear("kid", "grandkid", "/p/src/deep")
    with refused("scope_conflict") as caught:
        mesh.claim("bob", "/p")
    assert "'grandkid' holds write /p/src/deep" in caught.value.message
    assert owner(mesh, "/p/src/deep/x").owner == "grandkid"
    assert owner(mesh, "/p/src/deep/x").through == ["kid", "alice"]
    assert owner(mesh, "/p/src/x").owner == "kid"
    assert owner(mesh, "/p/x").owner == "alice"


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_all_rules_of_a_claim_are_granted_or_none(mesh: Family) -> None:
    mesh.claim("alice", "/p/src")
    with refused("scope_conflict"):
        mesh.claim("bob", "/p/doc", "/p/src/x")
    assert mesh.state.claims.keys() == {mesh.agent("alice").id}


def test_claiming_again_goes_on_and_is_no_change(mesh: Family) -> None:
    mesh.claim("alice", "/p/src", "/p/src")
    mesh.pass_time(100.0)
    reply = mesh.claim("alice", "/p/src", for_s=1_000.0)
    assert not reply.changed
    assert len(reply.rules) == 1
    assert reply.rules[0].until == pytest.approx(mesh.now + 1_000.0)
    assert mesh.claim("alice", "/p/src/sub").changed, "one's own claims never hinder"
    assert mesh.replayed() == mesh.state


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_a_claim_is_over_when_its_time_is(mesh: Family) -> None:
    mesh.claim("alice", "/p/a", for_s=10.0)
    mesh.claim("alice", "/p/b", for_s=100.0)
    mesh.pass_time(10.0)
    assert mesh.claim("bob", "/p/a").changed, "also before anybody has looked"
    mesh.sweep()
    assert [(event.reason, event.rules) for event in mesh.of_type(ScopeReleased)] == [
        ("expired", write("/p/a"))
    ]
    assert mesh.writers("/p/a") == ["bob"]
    assert mesh.writers("/p/b") == ["alice"]


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_release_gives_back_the_named_or_all(mesh: Family) -> None:
    mesh.claim("alice", "/p/a", "/p/b", "/p/c")
    assert [each.path for each in release(mesh, "alice", "/p/b").rules] == ["/p/a", "/p/c"]
    assert not release(mesh, "alice", "/p/b").changed
    assert not release(mesh, "bob", "/p/a").changed, "nobody gives back what another has"
    assert release(mesh, "alice").rules == []
    assert not release(mesh, "alice").changed
    assert not mesh.state.claims


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_row_stale_detection_only_a_dead_process_counts(mesh: Family) -> None:
    mesh.agent("alice").process = "7.7"
    mesh.alive.add("7.7")
    mesh.claim("alice", "/p/a")
    mesh.register("box")
    mesh.claim("box", "/p/box")
    mesh.lose("alice")
    mesh.leave("box")
    mesh.sweep()
    assert mesh.writers("/p/a") == ["alice"], "its client may be about to come back"
    mesh.alive.clear()
    mesh.sweep()
    assert [event.reason for event in mesh.of_type(ScopeReleased)] == ["gone"]
    assert mesh.writers("/p/box") == ["box"], "a name that commands speak for keeps its claims for their time"


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_a_restart_of_the_broker_frees_nothing(mesh: Family) -> None:
    mesh.claim("alice", "/p/a")
    mesh.run(StartBroker("2"))
    mesh.sweep(begun=True)
    assert mesh.judge("bob", "/p/a").owner == mesh.agent("alice").id


def test_what_an_agent_claimed_goes_when_it_is_forgotten_and_along_with_its_name(mesh: Family) -> None:
    mesh.claim("alice", "/p/a")
    mesh.claim("bob", "/p/b")
    mesh.lose("bob")
    mesh.run(UpdateAgent(agent="alice", name="bob"), OPERATOR)
    assert mesh.writers("/p/a") == ["bob"] == mesh.writers("/p/b")
    mesh.forget("bob")
    assert not mesh.state.claims
    assert mesh.replayed() == mesh.state


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"rules": []}, "bad_request"),
        ({"rules": write("src")}, "path_invalid"),
        ({"rules": write("/p/../x")}, "path_invalid"),
        ({"rules": write("/p"), "for_s": 0.0}, "bad_request"),
        ({"rules": write("/p"), "for_s": float("nan")}, "bad_request"),
        ({"rules": write("/p"), "for_s": 1e9}, "bad_request"),
        ({"rules": write(*(f"/{n}" for n in range(5)))}, "limit_exceeded"),
    ],
)
def test_bad_claims_are_refused(fields: dict[str, object], code: str) -> None:
    mesh = Family(Limits(claims_max=4))
    mesh.register("alice")
    with refused(code):
        mesh.run(ClaimScope(**fields), mesh.caller("alice"))  # pyright: ignore[reportArgumentType]
    assert not mesh.of_type(ScopeClaimed)


def test_claims_have_a_bound_over_several_calls() -> None:
    mesh = Family(Limits(claims_max=4))
    mesh.register("alice")
    mesh.claim("alice", "/a", "/b", "/c")
    mesh.claim("alice", "/a", "/d")
    with refused("limit_exceeded"):
        mesh.claim("alice", "/e")


def test_who_is_no_agent_claims_nothing(mesh: Family) -> None:
    for operation in (ClaimScope(rules=write("/p")), ReleaseScope()):
        with pytest.raises(TellwireError):
            mesh.run(operation, SCRIPT)


# -- delegation ---------------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_row_spawn_denies_the_parent_writing_and_leaves_it_reading(mesh: Family) -> None:
    mesh.claim("alice", "/p")
    mesh.bear("alice", "kid", "/p/src")
    assert mesh.writers("/p/src/a") == ["kid"]
    assert mesh.writers("/p/b") == ["alice"]
    assert "gave /p/src/a to kid" in mesh.judge("alice", "/p/src/a").reason
    told = owner(mesh, "/p/src/a", "alice")
    assert "alice" in told.readers
    assert not told.may_write


@pytest.mark.requirement("CHILD-2", "CHILD-5", stage="lineage")
def test_a_scoped_child_writes_in_its_scope_only(mesh: Family) -> None:
    mesh.bear("alice", "kid", "/p/src")
    verdict = mesh.judge("kid", "/p/doc")
    assert not verdict.allowed
    assert verdict.reason == (
        "/p/doc is outside your scope. You may write in /p/src only;"
        " ask alice for more, or leave it to alice."
    )
    assert mesh.judge("kid", "/p/src/a").allowed
    assert mesh.judge("alice", "/p/doc").allowed
    mesh.bear("alice", "reader", scope=[rule("/p", "read")])
    assert "You may not write anywhere" in mesh.judge("reader", "/p/doc").reason
    mesh.bear("alice", "free")
    assert mesh.judge("free", "/p/doc").allowed
    assert not mesh.judge("free", "/p/src/a").allowed


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_row_delegate_not_subset(mesh: Family) -> None:
    mesh.bear("alice", "kid", scope=[rule("/p/src"), rule("/p", "read")])
    for scope in (write("/p"), write("/p/doc"), [rule("/q", "read")], write("/p/src/a", "/q")):
        with refused("scope_outside") as caught:
            mesh.spawn("kid", "grandkid", scope=scope)
        assert "outside the scope of 'kid'" in caught.value.message
    assert mesh.state.find("grandkid") is None
    mesh.bear("kid", "grandkid", scope=[rule("/p/src/a"), rule("/p/doc", "read")])
    assert mesh.writers("/p/src/a/x") == ["grandkid"]


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_row_delegate_write_conflict_with_anyone_but_the_spawner(mesh: Family) -> None:
    mesh.claim("alice", "/p")
    mesh.claim("bob", "/q")
    mesh.bear("alice", "kid", "/p/src")
    for path, holder in (("/q/x", "bob"), ("/p/src/x", "kid"), ("/p", "kid"), ("/", "kid")):
        with refused("scope_conflict") as caught:
            mesh.spawn("alice", "other", path)
        assert repr(holder) in caught.value.message
    mesh.bear("alice", "other", "/p/doc")
    assert mesh.writers("/p/doc/x") == ["other"]


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_a_reservation_counts_before_anything_runs(mesh: Family) -> None:
    mesh.spawn("alice", "kid", "/p/src")
    with refused("scope_conflict"):
        mesh.claim("bob", "/p/src")
    with refused("scope_conflict"):
        mesh.spawn("bob", "other", "/p")


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_a_child_without_scope_gives_nothing_that_its_parents_claim(mesh: Family) -> None:
    mesh.claim("alice", "/p")
    mesh.bear("alice", "free")
    with refused("scope_conflict") as caught:
        mesh.spawn("free", "grandkid", "/p/x")
    assert "'alice'" in caught.value.message
    with refused("scope_conflict"):
        mesh.claim("free", "/p/x")
    mesh.claim("free", "/f")
    mesh.bear("free", "grandkid", "/f/x")


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_a_scoped_child_claims_nothing_for_itself(mesh: Family) -> None:
    mesh.bear("alice", "kid", "/p/src")
    for path in ("/p/src/a", "/q"):
        with refused("scope_given"):
            mesh.claim("kid", path)
    assert release(mesh, "kid").changed, "it may give up what it got"
    assert not mesh.judge("kid", "/p/src/a").allowed
    assert mesh.judge("alice", "/p/src/a").allowed


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_row_a_deny_that_covers_the_competitor_suppresses_the_conflict(mesh: Family) -> None:
    """A parent that claims (again) what lies around its children's scopes has all but those."""
    mesh.bear("alice", "kid", "/p/src")
    mesh.claim("alice", "/p")
    assert mesh.writers("/p/src/a") == ["kid"]
    assert mesh.writers("/p/x") == ["alice"]
    with refused("scope_conflict"):
        mesh.claim("alice", "/p/src/a")
    mesh.end("kid")
    assert mesh.writers("/p/src/a") == ["alice"]


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_row_effective_write_is_derived_and_the_raw_claim_never_shrinks(mesh: Family) -> None:
    mesh.claim("alice", "/p")
    before = mesh.state.claims[mesh.agent("alice").id]
    mesh.bear("alice", "kid", "/p/src")
    assert mesh.state.claims[mesh.agent("alice").id] == before
    mesh.end("kid")
    assert mesh.writers("/p/src/a") == ["alice"]


@pytest.mark.requirement("CHILD-2", "CHILD-4", stage="lineage")
def test_row_release_reparents_children_to_the_one_above(mesh: Family) -> None:
    mesh.claim("alice", "/p")
    mesh.bear("alice", "kid", "/p/src")
    mesh.bear("kid", "grandkid", "/p/src/deep")
    mesh.end("kid")
    assert mesh.child("grandkid").parent == mesh.agent("alice").id
    assert mesh.writers("/p/src/deep/x") == ["grandkid"]
    assert mesh.writers("/p/src/x") == ["alice"]
    mesh.end("grandkid")
    assert mesh.writers("/p/src/deep/x") == ["alice"]


@pytest.mark.requirement("CHILD-2", "AUD-2", stage="lineage")
def test_row_reclaim_is_idempotent_also_when_the_entry_is_gone(mesh: Family) -> None:
    mesh.bear("alice", "kid", "/p/src")
    kid = mesh.agent("kid").id
    mesh.end("kid")
    seq = mesh.state.seq
    mesh.run(NoteChildEnd(kid, "killed"))
    mesh.run(NoteChildEnd("a99", "killed"))
    mesh.sweep()
    assert mesh.state.seq == seq
    assert not mesh.state.claims


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_a_parents_own_claim_may_end_before_the_childs(mesh: Family) -> None:
    mesh.claim("alice", "/p", for_s=10.0)
    mesh.bear("alice", "kid", "/p/src")
    mesh.pass_time(20.0)
    mesh.sweep()
    assert mesh.writers("/p/src/a") == ["kid"]
    with refused("scope_conflict"):
        mesh.claim("bob", "/p")
    assert mesh.claim("bob", "/p/doc").changed


# -- looking ------------------------------------------------------------------------------------------


def test_the_tree_shows_parents_before_children(mesh: Family) -> None:
    mesh.claim("bob", "/q", for_s=60.0)
    mesh.claim("alice", "/p")
    mesh.bear("alice", "kid", "/p/src")
    mesh.bear("kid", "baby", "/p/src/deep")
    mesh.bear("alice", "free")
    reply: Scopes = mesh.run(ListScopes(), mesh.caller("carol"))
    assert [(each.name, each.parent) for each in reply.scopes] == [
        ("alice", ""),
        ("free", "alice"),
        ("kid", "alice"),
        ("baby", "kid"),
        ("bob", ""),
    ]
    assert [each.scoped for each in reply.scopes] == [False, False, True, True, False]
    assert {each.enforced for each in reply.scopes} == {"advisory"}
    kid = reply.scopes[2]
    assert [(each.path, each.until) for each in kid.rules] == [("/p/src", 0.0)]


@pytest.mark.requirement("CHILD-5", stage="lineage")
def test_enforced_is_only_what_the_client_itself_holds(mesh: Family) -> None:
    mesh.claim("bob", "/q")
    for name, held_by in (("held", "sandbox"), ("ruled", "rules"), ("asked", "")):
        mesh.spawn("alice", name, f"/p/{name}")
        mesh.alive.add(f"{name}.1")
        started = NoteChildStarted(mesh.agent(name).id, f"{name}.1", f"token-{name}", "", held_by)
        mesh.run(started)
    reply: Scopes = mesh.run(ListScopes(), OPERATOR)
    unheard = ("advisory", "no hook of its client has run yet")
    assert {each.name: (each.enforced, each.why) for each in reply.scopes} == {
        "alice": unheard,
        "asked": unheard,
        "bob": unheard,
        "held": ("enforced", "held by its client's sandbox"),
        "ruled": ("enforced", "held by its client's rules; shell commands are not checked"),
    }
    family: Children = mesh.run(ListChildren(), OPERATOR)
    assert {each.name: each.enforced for each in family.children} == {
        "asked": "advisory",
        "held": "enforced",
        "ruled": "enforced",
    }
    told = owner(mesh, "/q/x", "held")
    assert (told.may_write, told.enforced, told.why) == (False, "enforced", "held by its client's sandbox")
    assert owner(mesh, "/q/x", "asked").enforced == "advisory"
    assert owner(mesh, "/p/held/x", "held").enforced == "", "it may"
    assert owner(mesh, "/q/x").enforced == "", "a person may"


def test_a_question_about_no_path_is_refused(mesh: Family) -> None:
    with refused("path_invalid"):
        owner(mesh, "src")


def test_a_rule_reads_like_a_sentence() -> None:
    assert str(ScopeRule("/p")) == "write /p"
    assert str(rule("/p", "read", recursive=False)) == "read /p (not beneath)"
