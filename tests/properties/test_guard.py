"""What every client's tools may write around a claim: refused if and only if the file is another's (CHILD-5).

Payload bytes go in as a hook brings them; the verdict comes out by the code that the hooks' door runs.
The files are real: symbolic links, hard links, folders that do not exist yet.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tellwire.core.children.write_rules import guard_of
from tellwire.relay.carrier import fit
from tellwire.relay.guard import UNREADABLE, judge
from tellwire.relay.payloads import read
from tellwire.sessions.gate_files import WRITES
from tellwire.sessions.starts import read_payload
from tests.clients import EVENTS, TOOLS
from tests.unit.family import Family, rule

pytestmark = pytest.mark.requirement("CHILD-5", stage="lineage")

LONG = 1_200_000
MEANWHILE_S = 30.0
"""So long a search for links may take here: a busy machine must not decide what is found."""


# -- the files ----------------------------------------------------------------------------------------


@contextmanager
def project() -> Generator[Path]:
    """`shop/src` is claimed, `shop/free` is nobody's; links lead from each into the other."""
    with tempfile.TemporaryDirectory() as folder:
        shop = Path(folder).resolve() / "shop"
        for name in ("src/deep", "free/deep", "srcs"):
            (shop / name).mkdir(parents=True)
        for name in ("src/a", "src/deep/a", "free/a", "free/deep/a", "srcs/a", "a"):
            (shop / name).write_text(name, "utf-8")
        for name, target in {
            "link": "src",
            "free/in": "../src/deep",
            "src/out": "../free",
            "src/deep/up": "..",
            "later": "src/new",
            "file": "src/deep/a",
        }.items():
            (shop / name).symlink_to(target)
        (shop / "free" / "hard").hardlink_to(shop / "src" / "a")
        (shop / "free" / "hard2").hardlink_to(shop / "src" / "deep" / "a")
        (shop / "free" / "pair").hardlink_to(shop / "free" / "a")
        (shop / "src" / "pair").hardlink_to(shop / "src" / "out" / "deep" / "a")
        yield shop


def inside(claim: Path, path: str, *, recursive: bool) -> bool:
    """Whether a rule is about a path that has no links in it."""
    if path == str(claim):
        return True
    return path.startswith(f"{claim}/") if recursive else os.path.dirname(path) == str(claim)


def names_of(path: str, root: Path) -> set[str]:
    """All names of a file; the one that is told if it does not exist."""
    if not os.path.isfile(path):
        return {path}
    files = (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)
    return {file for file in files if not os.path.islink(file) and os.path.samefile(file, path)} | {path}


def resolved(paths: list[str], root: Path) -> set[str]:
    """All that the paths stand for, on disk."""
    both = {os.path.realpath(way) for path in paths for way in (path, os.path.normpath(path))}
    return {name for real in both for name in names_of(real, root)}


# -- what clients say ---------------------------------------------------------------------------------


class Spelled(NamedTuple):
    """A path as a call has it, and all that its client may take it for, seen from its folder."""

    text: str
    means: tuple[str, ...]


SEGMENTS = ["src", "deep", "free", "link", "in", "out", "up", "later", "new", "a", "hard", "hard2", "pair"]
STEPS = st.sampled_from([*SEGMENTS, "src", "free", "file", "srcs", "..", ".", "", "%73rc", "SRC", "sr\u0441"])
WALKS = st.lists(STEPS, min_size=1, max_size=5).map("/".join).filter(lambda path: path.strip("/. ") != "")


def spell(client: str, walk: str, how: str, shop: Path) -> Spelled:
    """One way to write a path down."""
    walk = walk.lstrip("/")
    whole = f"{shop}/{walk}"
    quoted = whole.replace("s", "%73")
    ways: dict[str, Spelled] = {
        "relative": Spelled(walk, (walk,)),
        "dotted": Spelled(f"./{walk}", (walk,)),
        "absolute": Spelled(whole, (whole,)),
        "slashes": Spelled(f"/{whole.replace('/', '//')}/", (whole,)),
        "around": Spelled(f"{shop}/free/../{walk}", (f"{shop}/free/../{walk}",)),
        "blank": Spelled(f" \t{whole}\n", (whole, f" \t{whole}\n")),
        "at": Spelled(f"@{walk}", (f"@{walk}", walk) if client in ("pi", "gemini-cli") else (f"@{walk}",)),
        "url": Spelled(f"file://{whole}", (f"file://{whole}", whole, unquote(whole))),
        "quoted url": Spelled(f"file://{quoted}", (f"file://{quoted}", quoted, unquote(quoted))),
    }
    found = ways[how]
    if client == "gemini-cli":  # it decodes every path
        return Spelled(found.text, (*found.means, *(mean.replace("%73", "s") for mean in found.means)))
    return found


HOWS = st.sampled_from(
    ["relative", "dotted", "absolute", "slashes", "around", "blank", "at", "url", "quoted url"]
)
TEXTS = st.sampled_from(
    ["x", "\ud83d", "\\", '"file_path": "/elsewhere"', "*** Add File: elsewhere", "ä\u2028", ""]
)


class Call(NamedTuple):
    """A payload in bytes, and what it writes."""

    client: str
    data: bytes
    paths: list[str]


def pairs(fields: list[tuple[str, str]]) -> str:
    """A JSON object out of fields in JSON; a name may come twice, then the last counts."""
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in fields) + "}"


@st.composite
def calls(draw: st.DrawFn, shop: Path) -> Call:
    """A call of a tool that writes, of any client, in any order, size and encoding."""
    client = draw(st.sampled_from(sorted(TOOLS)))
    tool, field = draw(st.sampled_from(sorted(TOOLS[client].items())))
    count = draw(st.integers(1, 3)) if field == "" else 1
    spelled = [spell(client, draw(WALKS), draw(HOWS), shop) for _ in range(count)]
    if tool == "replace":  # where it is no path of a file, it is searched for
        spelled = [each for each in spelled if each.text.startswith("/") or (shop / each.text).exists()]
        spelled = spelled or [Spelled(f"{shop}/a", (f"{shop}/a",))]
    text = draw(TEXTS)
    text *= draw(st.sampled_from([1, 1, 1, 1, 1, 1, LONG // (len(text) or 1)]))
    if field == "":
        spelled = [each for each in spelled if each.text == each.text.strip()] or [
            Spelled("free/z", ("free/z",))
        ]
        heads = st.sampled_from(["Add File", "Update File", "Delete File"])
        lines = [f"*** {draw(heads)}: {each.text}\n+{text}\n" for each in spelled]
        moved = f"*** Update File: {spelled[0].text}\n*** Move to: {spelled[-1].text}\n@@\n-x\n+{text}\n"
        patch = "*** Begin Patch\n" + "".join([moved, *lines]) + "*** End Patch\n"
        given_fields = [("patchText" if client == "opencode" else "command", json.dumps(patch))]
    else:
        nested = json.dumps(
            [{field: f"{shop}/src/a"}, {"tool_name": "Read", "hook_event_name": "PostToolUse"}]
        )
        content = [("content", json.dumps(text)), ("edits", nested)]
        given_fields = draw(st.permutations([*content, (field, json.dumps(spelled[0].text))]))
        if draw(st.booleans()):
            given_fields = [(field, json.dumps(f"{shop}/src/deep/a")), *given_fields]
    about = [("session_id", '"s"'), ("cwd", json.dumps(str(shop))), ("tool_name", json.dumps(tool))]
    about += [("hook_event_name", json.dumps(EVENTS[client])), ("tool_input", pairs(list(given_fields)))]
    whole = pairs(list(draw(st.permutations(about))))
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16"]))
    if "command" in dict(given_fields) or "patchText" in dict(given_fields):
        spelled = [Spelled(each.text, tuple(mean.rstrip() for mean in each.means)) for each in spelled]
    seen = [os.path.join(shop, mean) for each in spelled for mean in each.means]
    return Call(client, whole.encode(encoding), seen)


# -- the verdict --------------------------------------------------------------------------------------


def refusal(mesh: Family, name: str, client: str, data: bytes) -> list[tuple[str, str]]:
    """What the broker says of a payload that a hook brings; a hook alone says the same."""
    told, cut = fit(data, len(data))
    guard: Any = msgspec.to_builtins(guard_of(mesh.state, mesh.agent(name).id))
    said = judge(guard, WRITES[client], read_payload(told, cut=cut), within_s=MEANWHILE_S)
    assert judge(guard, WRITES[client], read(told, cut=cut), within_s=MEANWHILE_S) == said
    return said


def contents(claim: Path) -> dict[str, str]:
    return {str(file): file.read_text("utf-8") for file in claim.rglob("*") if file.is_file()}


def carry_out(paths: list[str]) -> None:
    """Write where the call would."""
    for path in paths:
        for way in (path, os.path.normpath(path)):
            with suppress(OSError):
                os.makedirs(os.path.dirname(way), exist_ok=True)
                Path(way).write_text("written", "utf-8")


bounded = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@bounded
@given(data=st.data(), recursive=st.booleans())
def test_a_call_is_refused_if_and_only_if_a_file_it_writes_is_anothers(data: Any, recursive: bool) -> None:
    with project() as shop:
        mesh = Family()
        for name in ("alice", "bob"):
            mesh.register(name, kind="codex")
        claim = shop / "src"
        mesh.claim("alice", rules=[rule(str(claim), recursive=recursive)])
        call = data.draw(calls(shop))
        said = refusal(mesh, "bob", call.client, call.data)
        written = resolved(call.paths, shop)
        hers = sorted(path for path in written if inside(claim, path, recursive=recursive))
        assert bool(said) == bool(hers), (said, hers, call.data[:2_000])
        assert refusal(mesh, "alice", call.client, call.data) == [], "it is her own"
        if said:
            assert all("belongs to alice" in reason for _, reason in said)
        elif recursive:
            before = contents(claim)
            carry_out(call.paths)
            assert contents(claim) == before


@bounded
@given(data=st.data())
def test_a_scoped_agent_writes_if_and_only_if_every_name_of_the_file_is_in_its_scope(data: Any) -> None:
    with project() as shop:
        mesh = Family()
        mesh.register("alice", kind="codex")
        mesh.bear("alice", "kid", str(shop / "src"))
        call = data.draw(calls(shop))
        said = refusal(mesh, "kid", call.client, call.data)
        outside = [
            path for path in resolved(call.paths, shop) if not inside(shop / "src", path, recursive=True)
        ]
        assert bool(said) == bool(outside), (said, outside, call.data[:2_000])


# -- what cannot be judged ----------------------------------------------------------------------------


@st.composite
def unclear(draw: st.DrawFn, shop: Path) -> tuple[str, bytes]:
    """A call of which nobody can tell where it writes."""
    client = draw(st.sampled_from(sorted(TOOLS)))
    tool, field = draw(st.sampled_from(sorted(TOOLS[client].items())))
    inner: dict[str, Any] = {field or "command": "free/a" if field else "*** Add File: free/a\n"}
    told: dict[str, Any] = {"session_id": "s", "cwd": str(shop), "hook_event_name": EVENTS[client]}
    told |= {"tool_name": tool, "tool_input": inner}
    how = draw(st.integers(0, 8))
    if how == 0:
        told["cwd"] = draw(st.sampled_from(["", ".", "shop", None, 7, []]))
    elif how == 1:
        told["tool_input"] = draw(st.sampled_from([None, [], 7, {}, {"other": "src/a"}, "free/a"]))
    elif how == 2:
        told["tool_name"] = draw(st.sampled_from([None, ["Write"], 7]))
    elif how == 3:
        bad = draw(st.sampled_from(["a\0b", "/proc/self/cwd/src/a", "/dev/fd/3", "a/" * 2_100, "/dev/stdin"]))
        inner[field or "command"] = bad if field else f"*** Add File: {bad}\n"
    elif how == 4 and field == "":
        inner["command"] = "".join(f"*** Add File: free/{number}\n" for number in range(1_001))
    elif how == 5:
        return client, json.dumps(told).encode().replace(b"free/a", b"free/\xff")
    elif how == 6:
        return client, json.dumps({**told, "deep": 1}).encode().replace(b": 1}", b": " + b"[" * 30_000)
    elif how == 7:
        return client, json.dumps(told).encode()[: -draw(st.integers(1, 3))]
    else:
        inner[field or "command"] = draw(st.sampled_from([None, 7, ["free/a"], ""]))
    return client, json.dumps(told).encode()


@bounded
@given(data=st.data())
def test_what_cannot_be_judged_is_refused_with_or_without_a_scope(data: Any) -> None:
    with project() as shop:
        mesh = Family()
        for name in ("alice", "bob"):
            mesh.register(name, kind="codex")
        mesh.claim("alice", str(shop / "src"))
        mesh.bear("bob", "kid", str(shop / "free"))
        client, payload = data.draw(unclear(shop))
        for name in ("bob", "kid"):
            assert refusal(mesh, name, client, payload) == [("path_invalid", UNREADABLE)], payload[:2_000]


@bounded
@given(payload=st.binary(max_size=200) | st.text(max_size=100).map(lambda text: f'{{"a":"{text}"}}'.encode()))
@example(payload=b'{"hook_event_name":"PreToolUse"')
@example(payload=b"")
def test_any_bytes_are_judged_without_an_error(payload: bytes) -> None:
    mesh = Family()
    for name in ("alice", "bob"):
        mesh.register(name, kind="codex")
    mesh.claim("alice", "/p")
    with suppress(ValueError):  # no payload at all
        refusal(mesh, "bob", "claude-code", payload)
