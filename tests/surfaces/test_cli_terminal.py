"""What others write reaches a terminal as text and nothing else: every command, every format, every field."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import click
import pytest

from tellwire.cli.app import cli
from tellwire.cli.table import ALIASES, ROWS, SECTIONS
from tests.integration.hook_client import Client, open_client
from tests.integration.world import Home, Raw, until
from tests.surfaces.cli_world import Done, run, run_at_terminal

SIGNS = {
    "csi": "\x1b[2J\x1b[1;1H",
    "colour": "\x1b[31mPAINT",
    "title": "\x1b]0;title\x07",
    "hyperlink": "\x1b]8;;http://x/\x1b\\link\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "dcs": "\x1bP1$r0m\x1b\\",
    "apc": "\x1b_Gf=100;AAAA\x1b\\",
    "c1": "\x9b2J\x9d0;t\x9c\x90q\x9c\x85\x80\x9f",
    "bidi": "\u202egnp.\u202c\u2066x\u2069\u200f\u200e\u061c",
    "zero-width": "\u200b\u2060\ufeff\u00ad\u180e\u2028\u2029",
    "tags": "\U000e0001\U000e0041\U000e007f",
    "hidden": "\u3164\U000e0100\u034f",
    "overwrite": "rm -rf /\rls\x08\x08\x7f\x0b\x0c\x0e\x0f",
    "beep": "\x07\x05\x1b[6n\x1bc\x1b",
}
"""What a terminal would obey or hide."""
EVIL = "EVIL" + "".join(SIGNS.values()) + "END"
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
COLOURS = re.compile(r"\x1b\[(?:[012]|3[123])m(?!PAINT)")
PROGRESS = re.compile(r"\r(?=\d+ %|[\n{]|proved|broken)|\r\x1b\[K|(?<=\r)\d+ %|\x1b\[H\x1b\[J(?=\u2691 \d)")
"""What our own words do to a line that is not finished."""


Doors: TypeAlias = Callable[[], Awaitable[Raw]]


class Case(NamedTuple):
    """A command line, and what is known of its outcome."""

    words: list[str]
    evil: bool = True
    """It has something of the hostile text to show."""
    enough: bytes = b""
    types: bytes = b""
    made: bool = False
    """Events are made while it runs."""
    fresh: bool = False
    """In a home without a broker."""


class World(NamedTuple):
    """A broker in a folder with a hostile name, and everything hostile in it that others may write."""

    home: Home
    fresh: Home
    raw: Raw | None
    folder: Path
    message: str
    link: str


@pytest.fixture
def homes() -> Iterator[tuple[Home, Home]]:
    """Two homes whose paths would set the terminal's title."""
    top = Path(tempfile.mkdtemp(prefix="tlw-"))
    made = [Home(top / f"{name}EVIL\x1b]0;x\x07\x9b\u202e") for name in "ab"]
    for home in made:
        home.path.mkdir()
    try:
        yield made[0], made[1]
    finally:
        for home in made:
            home.end()
        shutil.rmtree(top, ignore_errors=True)


@pytest.fixture
async def doors(homes: tuple[Home, Home]) -> AsyncIterator[Doors]:
    """Opens connections to the first home; they end with the test."""
    async with AsyncExitStack() as stack:

        async def connect() -> Raw:
            opened = await Raw.open(homes[0])
            stack.push_async_callback(opened.close)
            return opened

        yield connect


@pytest.fixture
async def worker(homes: tuple[Home, Home], tmp_path: Path) -> AsyncIterator[Client]:
    """A session with a transcript."""
    homes[0].up()
    async with open_client(homes[0], tmp_path / "rollout.jsonl") as client:
        yield client


async def fill(homes: tuple[Home, Home], doors: Doors, worker: Client, folder: Path) -> World:
    """Write the hostile text wherever an agent can."""
    home, fresh = homes
    folder /= "EVIL\x1b]0;x\x07\x9b\u202e"
    folder.mkdir()
    raw = await doors()
    profile = {"capabilities": [*SIGNS.values(), "EVIL"], "metadata": {EVIL: EVIL}, "cwd": str(folder)}
    for number, kind in enumerate(SIGNS.values()):
        other = await doors()
        name = f"e{number}"
        joined = await other.call(
            "register_agent", name=name, kind=f"EVIL{kind}", session=f"s{number}", **profile
        )
        assert "ok" in joined, joined
    assert "ok" in await raw.call("register_agent", name="evil", kind="EVIL\x1b[2J", session="s", **profile)
    for words in (
        ["register", "bob"],
        ["link", "open", "evil", "e0", "e1", "--role", f"evil={EVIL[:60]}"],
        ["claim", str(folder), "--as", "bob"],
    ):
        done = run_at_terminal(home, *words)
        assert done.code == 0, done
    link = json.loads(run(home, "link", "list", "--json").out)["links"][0]["id"]
    said = await raw.call("send_message", to=f"link:{link}", body=EVIL)
    assert "ok" in said, said
    await worker.hook("UserPromptSubmit", prompt=EVIL)
    worker.ask("user", EVIL)
    worker.write("response_item", type="function_call", name=f"EVIL{SIGNS['csi']}", arguments=EVIL)
    worker.answer(EVIL)
    await worker.hook("Stop", last_assistant_message=EVIL)
    run_at_terminal(home, "send", "bob", "hello")
    message = await mail(raw, "bob", "bob", "operator")
    return World(home, fresh, raw, folder, message, link)


async def mail(raw: Raw | None, *names: str) -> str:
    """Hostile mail to each of them; the last one's id."""
    assert raw is not None
    identity = ""
    for name in names:
        sent = await raw.call("send_message", to=name, body=EVIL, context={EVIL: EVIL})
        identity = sent["ok"]["id"]
    return identity


def cases(world: World) -> dict[str, list[Case]]:
    """For each command what it is played with; one that is missing here fails the test."""
    path = str(world.folder / "x")
    sheet = f"printf '{EVIL[:40].encode('unicode_escape').decode()}'"
    return {
        "tui": [],  # it paints the screen: test_console_screen and integration/test_console
        "send": [Case(["send", "bob", EVIL], evil=False), Case(["send", EVIL, "x"])],
        "chat": [Case(["chat", "evil"], enough=b"EVIL"), Case(["chat", EVIL], types=b"\x04")],
        "needs": [Case(["needs"])],
        "glance": [Case(["glance"], evil=False), Case(["glance", "--tmux"], evil=False)],
        "answer": [Case(["answer", EVIL, "yes"])],
        "inbox": [Case(["inbox", "--peek", "--as", "bob"]), Case(["inbox", "--as", "bob"]), Case(["inbox"])],
        "broadcast": [Case(["broadcast", EVIL, "--confirm"], evil=False)],
        "message-status": [Case(["message-status", world.message], evil=False)],
        "why": [Case(["why", world.message]), Case(["why", EVIL], evil=False)],
        "thread": [Case(["thread", world.message]), Case(["thread", EVIL], evil=False)],
        "link": [
            Case(["link"], evil=False),
            Case(["link", "list", "--all"], evil=False),
            Case(["link", "show", world.link]),
            Case(["link", "say", world.link, EVIL], evil=False),
            Case(["link", "add", world.link, "e2", "--role", EVIL[:60]]),
            Case(["link", "open", "e3", "e4", "--role", f"e3={EVIL[:60]}"]),
            Case(["link", "leave", world.link, "e2"], evil=False),
            Case(["link", "resume", world.link]),
            Case(["link", "close", world.link, "--message", EVIL]),
        ],
        "watch": [Case(["watch", world.link], enough=b"END")],
        "listen": [Case(["listen", "worker"], evil=False)],
        "unlisten": [Case(["unlisten", "worker"], evil=False)],
        "checkpoint": [Case(["checkpoint", "worker"], evil=False)],
        "list": [Case(["list", "--all"]), Case(["list", "--watch"], enough=b"EVIL")],
        "ls": [Case(["ls"])],
        "ps": [Case(["ps"])],
        "info": [Case(["info", "e0"]), Case(["info", "evil"])],
        "session": [Case(["session", "worker"]), Case(["session", "evil"])],
        "register": [Case(["register", "carol", "--capability", EVIL[:100]])],
        "update": [Case(["update", "--as", "carol", "--capability", EVIL[:100]])],
        "mute": [Case(["mute", "evil"], evil=False)],
        "unregister": [Case(["unregister", "carol"], evil=False)],
        "subscribe": [Case(["subscribe", "#topic", "--as", "bob"], evil=False)],
        "topics": [Case(["topics"], evil=False)],
        "unsubscribe": [Case(["unsubscribe", "#topic", "--as", "bob"], evil=False)],
        "peer": [
            Case(["peer", "add", "evil", "bob"], evil=False),
            Case(["peer", "list", "evil"], evil=False),
            Case(["peer", "remove", "evil", "bob"], evil=False),
            Case(["peer"], evil=False),
        ],
        "machine": [
            Case(["machine"], evil=False),
            *(Case(["machine", word], evil=False) for word in ("list", "acl", "off", "on")),
            Case(["machine", "add", f"a {EVIL}"]),
            Case(["machine", "invite", "--carrier", f"redis+sentinel://{EVIL}"], evil=False),
            Case(["machine", "join", EVIL], evil=False),
            *(Case(["machine", word, "EVIL"]) for word in ("show", "remove", "connect")),
            Case(["machine", "rename", "EVIL", "desk"]),
            *(Case(["machine", word, "EVIL", "shop"]) for word in ("share", "unshare")),
            Case(["machine", "renew", "--yes"], evil=False),
        ],
        "policy": [Case(["policy", "open", "--project", str(world.folder)])],
        "claim": [Case(["claim", path, "--as", "bob"])],
        "who-owns": [Case(["who-owns", path])],
        "scopes": [Case(["scopes"])],
        "release": [Case(["release", path, "--as", "bob"])],
        "spawn": [
            Case(
                [
                    *("spawn", "kid", "command", "--task", EVIL, "--headless"),
                    *("--", "sh", "-c", f"{sheet}; exec sleep 300"),
                ]
            ),
        ],
        "children": [Case(["children"])],
        "attach": [Case(["attach", "kid"], evil=False)],
        "go": [Case(["go", "evil"], evil=False), Case(["go", EVIL], evil=False)],
        "stop": [Case(["stop", "kid"], evil=False)],
        "ask": [
            Case(["ask", "command", EVIL, "--", "sh", "-c", sheet]),
            Case(["ask", "command", EVIL, "--", "sh", "-c", f"{sheet} >&2; exit 3"]),
        ],
        "run": [Case(["run", "claude"], evil=False)],
        "install": [
            Case(["install", "claude", "--dry-run", "--diff"]),
            Case(["install", "claude"], types=b"n\n", evil=False),
            Case(["install", "claude"], types=b"d\nn\n"),
            Case(["install", "--check"], evil=False),
        ],
        "uninstall": [Case(["uninstall", "claude", "--dry-run"], evil=False)],
        "mcp": [Case(["mcp", "--name", "dora"], types=mcp_lines())],
        "history": [Case(["history", "--limit", "50"]), Case(["history", "--full"])],
        "search": [Case(["search", "EVIL"]), Case(["search", "EVIL", "--full"])],
        "stats": [Case(["stats"], evil=False)],
        "follow": [Case(["follow", "--all"], made=True, enough=b"EVIL")],
        "tail": [Case(["tail"], made=True, enough=b"EVIL")],
        "audit": [
            Case(["audit", "--limit", "200"]),
            Case(["audit", "--export", "-"]),
            Case(["audit", "--verify"], evil=False),
            Case(["audit", "--verify", "--head", EVIL], evil=False),
            Case(["audit", "--acknowledge"], evil=False),
        ],
        "purge": [Case(["purge", "--older-than", "1d", "--yes"], evil=False)],
        "doctor": [Case(["doctor"]), Case(["doctor", "evil"], evil=False)],
        "config": [
            Case(["config"]),
            Case(["config", "list", "--all"]),
            Case(["config", "get", "home"]),
            Case(["config", "get", EVIL]),
            Case(["config", "set", "checkpoint_prompt", EVIL]),
            Case(["config", "set", EVIL, "1"]),
            Case(["config", "unset", EVIL]),
            Case(["config", "unset", "checkpoint_prompt"], evil=False),
        ],
        "settings": [Case(["settings"])],
        "logs": [Case(["logs"], evil=False), Case(["logs", "-f"], enough=b"broker")],
        "service": [
            Case(["service"], evil=False),
            Case(["service", "show"]),
            Case(["service", "install"], evil=False),
            Case(["service", "remove"], evil=False),
        ],
        "upgrade": [Case(["upgrade"], evil=False)],
        "version": [Case(["version"])],
        "help": [Case(["help"], evil=False), Case(["help", EVIL]), Case(["help", "--man"], evil=False)],
        "completion": [Case(["completion", shell], evil=False) for shell in ("bash", "zsh", "fish")],
        "status": [Case(["status"])],
        "up": [Case(["up"], fresh=True, enough=b"EVIL"), Case(["up", "--detach"], fresh=True)],
        "down": [Case(["down"], evil=False)],
    }


def mcp_lines() -> bytes:
    """What a person types who tries the server."""
    version = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    asks = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": version},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "list_peers", "arguments": {"all": True}},
        },
    ]
    return b"".join(json.dumps(each).encode() + b"\n" for each in asks) + b"\x04"


def test_every_command_has_its_cases(tmp_path: Path) -> None:
    home = Home(tmp_path)
    played = cases(World(home, home, None, tmp_path, "m1", "l1"))
    assert set(played) == set(cli.commands)
    for name, group in cli.commands.items():
        if isinstance(group, click.Group) and name not in ALIASES:
            words = {case.words[1] for case in played[name] if len(case.words) > 1}
            assert words == set(group.commands), f"every command of {name} is played"


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize("section", SECTIONS)
async def test_a_terminal_gets_only_text_from_every_command(
    homes: tuple[Home, Home], doors: Doors, worker: Client, tmp_path: Path, section: str
) -> None:
    world = await fill(homes, doors, worker, tmp_path)
    for name, lines in cases(world).items():
        for case in lines if ROWS.get(name) in SECTIONS[section] else []:
            shown = await play(world, case, tmp_path, as_json=False)
            if has_json(cli.commands[name], case):
                shown += await play(world, case, tmp_path, as_json=True)
            assert "EVIL" in shown or not case.evil, (case.words, shown)


def has_json(command: click.Command, case: Case) -> bool:
    """Whether a command line may ask for JSON."""
    other_formats = {"--export", "--tmux"}
    return any("--json" in option.opts for option in command.params) and not other_formats & {*case.words}


async def play(world: World, case: Case, tmp_path: Path, *, as_json: bool) -> str:
    """Run a command at a terminal, and look at each sign of what it shows."""
    words = [*case.words]
    if as_json:
        end = words.index("--") if "--" in words else len(words)
        words.insert(end, "--json")
    settings = tmp_path / "person" / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"env": {"A": EVIL}, "hooks": {}}, ensure_ascii=False, indent=2), "utf-8")
    home = world.fresh if case.fresh else world.home
    variables = {"HOME": str(settings.parent.parent), "PAGER": "cat"}
    if case.words[0] in ("inbox", "chat"):
        await mail(world.raw, "bob", "operator")
    task = asyncio.create_task(
        asyncio.to_thread(
            run_at_terminal, home, *words, enough=case.enough, types=case.types, columns=400, **variables
        )
    )
    if case.made:
        await until(lambda: make_event(world, task), what="it ends")
    return check(words, await task, as_json=as_json)


async def make_event(world: World, task: asyncio.Task[Done]) -> bool:
    await mail(world.raw, "bob")
    await asyncio.wait({task}, timeout=0.25)  # a slow machine is not to be flooded
    return task.done()


def check(words: list[str], done: Done, *, as_json: bool = False) -> str:
    """The terminal is given text, and our own colours; the text."""
    assert done.code in (-2, 0, 1, 64, 65, 68, 69, 74, 75, 77, 130), (words, done)
    assert "Traceback" not in done.out, (words, done)
    text = PROGRESS.sub("", COLOURS.sub("", done.out))
    found = FORBIDDEN.search(text)
    assert found is None, (words, found, text[max(0, found.start() - 80) : found.end() + 20])
    if as_json:
        documents = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        assert documents, (words, done)
    return text


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize("section", SECTIONS)
def test_a_terminal_gets_only_text_when_the_words_themselves_are_hostile(
    homes: tuple[Home, Home], section: str
) -> None:
    home = homes[0]
    home.up()
    for name in [row.name for row in SECTIONS[section]]:
        for words in ([name, f"--{EVIL}"], [name, f"\udc9b{EVIL}"]):
            shown = check(words, run_at_terminal(home, *words, types=b"\x04"))
            assert "EVIL" in shown or "\udc9b" in words[1]


@pytest.mark.requirement("SEC-3")
async def test_json_has_the_same_value_at_a_terminal_and_is_exact_elsewhere(
    homes: tuple[Home, Home], doors: Doors
) -> None:
    home = homes[0]
    home.up()
    raw = await doors()
    text = f"{EVIL} ü 日本 🎉 \u200d \xa0 ~"
    kind = SIGNS["bidi"]
    profile = {"kind": kind, "session": "s", "metadata": {text: [text]}}
    assert "ok" in await raw.call("register_agent", name="evil", **profile)
    run(home, "register", "bob")
    await raw.call("send_message", to="bob", body=text)
    for words in (["info", "evil"], ["history"], ["audit"], ["list", "--all"]):
        exact = run(home, *words, "--json").out
        shown = run_at_terminal(home, *words, "--json").out
        assert json.loads(shown, object_pairs_hook=steady) == json.loads(exact, object_pairs_hook=steady), (
            words
        )
        assert FORBIDDEN.search(exact.rstrip("\n")), "elsewhere it is data"
        assert not FORBIDDEN.search(shown)
    assert json.loads(run_at_terminal(home, "info", "evil", "--json").out)["metadata"] == {text: [text]}
    assert "ü 日本 🎉" in run_at_terminal(home, "history", "--json").out, "what is harmless stays readable"
    check(["settings"], run_at_terminal(home, "settings", TELLWIRE_BEAT_S=EVIL))
    narrow = run(home, "info", "evil", "--json", pythonioencoding="ascii")
    assert json.loads(narrow.out)["metadata"] == {text: [text]}, "also where not every character can be said"


def steady(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without what changes between two looks."""
    return {key: value for key, value in pairs if key not in ("last_heartbeat", "why", "waits")}
