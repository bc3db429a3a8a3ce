"""Every operation of the command line's surface has a command, and both ways through it say the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any, get_args

import click
import msgspec
import pytest

import tellwire
from tellwire.cli.app import cli
from tellwire.cli.documents import document
from tellwire.cli.fast import FLAGS, OPTIONS
from tellwire.cli.shapes import (
    AGENT,
    COUNTS,
    MESSAGE,
    OUTCOME,
    SENT,
    STATE,
    whole_agents,
    whole_inbox,
    whole_sent,
)
from tellwire.cli.table import ALIASES, ROWS
from tellwire.cli.words import KINDS, MODES
from tellwire.paths import home_path, is_named, socket_path
from tellwire.protocol.operations import OPERATIONS
from tellwire.protocol.operations.agents import AgentList, AgentRecord
from tellwire.protocol.operations.base import CLI
from tellwire.protocol.operations.broker import BrokerState
from tellwire.protocol.operations.messages import ContentKind, Inbox, MessageRecord, Mode, Outcome, Sent
from tellwire.protocol.operations.needs import Counts
from tellwire.settings import load_settings
from tests.integration.program import StartProgram
from tests.integration.world import Home, Join
from tests.surfaces.cli_world import Done, run


def test_every_operation_of_the_surface_has_a_command() -> None:
    wanted = {word for word, kind in OPERATIONS.items() if CLI in kind.surfaces}
    offered = {word for row in ROWS.values() for word in row.operations}
    assert wanted <= offered, wanted - offered
    assert offered <= set(OPERATIONS)


def test_help_and_completion_import_no_command(home: Home) -> None:
    for words in (["--help"], ["--version"]):
        assert imported_commands(home, f"cli.run({words!r})") == set()
    assert imported_commands(home, "cli.shell_complete(__import__('click').Context(cli), 's')") == set()
    assert imported_commands(home, "cli.run(['completion', 'bash'])") == {"broker"}
    assert imported_commands(home, "cli.run(['scopes', '--help'])") == {"scopes"}


def imported_commands(home: Home, call: str) -> set[str]:
    """The modules of commands that a call imports."""
    program = (
        "import sys\n"
        "from tellwire.cli.app import cli\n"
        f"{call}\n"
        "sys.stderr.write(' '.join(name for name in sys.modules if '.cli.commands.' in name))\n"
    )
    done = tellwire_python(home, program, site=True)
    assert done.code == 0, done.err
    return {name.rpartition(".")[2] for name in done.err.split()}


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_every_command_explains_itself(name: str) -> None:
    command = cli.commands[name]
    assert command.help
    if name not in ("completion", "down", "up"):
        assert "Example" in command.help
    if name not in ("completion", "up", "mcp", "tui"):
        assert any("--json" in option.opts for option in command.params), "every command has --json"
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert all(option.help for option in options if not option.hidden)
    row = ROWS[ALIASES.get(name, name)]
    assert command.name == row.name
    assert command.get_short_help_str(200) == row.help
    assert len(row.help) <= 62, "it fits the list of commands"


# -- what the fast commands know by heart -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (AGENT, AgentRecord),
        (MESSAGE, MessageRecord),
        (SENT, Sent),
        (OUTCOME, Outcome),
        (COUNTS, Counts),
        (STATE, BrokerState),
    ],
)
def test_the_tables_of_the_fast_commands_have_the_operations_defaults(
    table: dict[str, Any], kind: type[msgspec.Struct]
) -> None:
    fields = msgspec.structs.fields(kind)
    assert list(table) == [field.encode_name for field in fields]
    for field in fields:
        if not field.required:
            default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
            assert table[field.encode_name] == default


def test_a_document_is_the_same_whichever_way_it_is_made() -> None:
    agent = AgentRecord(id="a", name="n", kind="k", status="online")
    message = MessageRecord(id="m1", sender="a", to="b", body={"x": 1}, sent_at=1.5)
    for whole, reply in (
        (whole_agents, AgentList(agents=[agent], hidden=2)),
        (whole_inbox, Inbox(messages=[message])),
        (whole_sent, Sent(status="sent", recipients=[Outcome(name="b", status="queued")])),
    ):
        wired = msgspec.json.decode(msgspec.json.encode(reply))
        assert list(whole(wired).items()) == list(document(reply).items())


def test_words_and_options_of_the_fast_commands_are_those_of_the_others() -> None:
    assert get_args(Mode) == MODES
    assert get_args(ContentKind) == KINDS
    for name in FLAGS:
        known = {word for option in cli.commands[name].params for word in option.opts}
        assert {*FLAGS[name], *OPTIONS[name]} <= known


@pytest.mark.parametrize(
    "env",
    [
        {"TELLWIRE_HOME": "~/x/../y"},
        {"TELLWIRE_HOME": "", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/run/u"},
        {"XDG_RUNTIME_DIR": "/run/" + "long/" * 30},
        {"TELLWIRE_HOME": "/p/" + "long/" * 30, "XDG_RUNTIME_DIR": "/run/u"},
        {},
    ],
)
def test_the_fast_commands_find_the_same_broker(env: dict[str, str]) -> None:
    settings = load_settings(environment=env)
    home = home_path(env)
    assert (home, is_named(env)) == (str(settings.home), settings.home_named)
    assert socket_path(home, env, named=is_named(env)) == str(settings.socket)


# -- the same words, fast and through click ---------------------------------------------------------------

STEPS: list[tuple[tuple[str, ...], bytes]] = [
    (("list",), b""),
    (("list", "--json"), b""),
    (("list", "--all", "--capability", "none"), b""),
    (("glance",), b""),
    (("glance", "--json"), b""),
    (("glance", "--tmux"), b""),
    (("glance", "--tmux", "--json"), b""),
    (("glance", "extra"), b""),
    (("send", "bob", "hi", "--as", "alice"), b""),
    (("send", "bob", "--as=alice", "--mode", "agree", "--json"), "aus der Röhre 🎉\n".encode()),
    (("send", "bob,zzz", "-", "--as", "alice", "--kind", "notification"), b"x\ny\n"),
    (("send", "#none", "x", "--as", "alice"), b""),
    (("send", "boob", "x", "--as", "alice"), b""),
    (("send", "boob", "x", "--as", "alice", "--json"), b""),
    (("send", "alice", "x", "--as", "alice"), b""),
    (("send", "bob", "x", "--as", "alice", "--re", "m0", "--ttl", "60"), b""),
    (("send", "bob", "x", "--as", "alice", "--ttl", "0"), b""),
    (("send", "bob", "x", "--as", "alice", "--ttl", "0", "--json"), b""),
    (("send", "b b", "x", "--as", "alice"), b""),
    (("send", "bob", "x"), b""),
    (("send", "bob", "--as", "alice"), b""),
    (("send", "bob", "-", "--as", "alice"), b"\xff\xfe"),
    (("send", "bob", "-", "--as", "alice"), b"y" * 70_000),
    (("send", "bob", "x", "--as", "live"), b""),
    (("inbox", "--peek", "--as", "bob"), b""),
    (("inbox", "--peek"), b""),
    (("inbox", "--as", "live"), b""),
    (("inbox", "--as", "nobody-yet"), b""),
    (("inbox", "--as", "bob", "--json"), b""),
    (("inbox", "--as", "bob"), b""),
]


async def test_the_fast_commands_and_the_others_say_the_same(
    home: Home, join: Join, program: StartProgram
) -> None:
    live = await join("peer")
    await program("live", kind="agent-cli")
    told: dict[bool, list[Done]] = {}
    for slow in (False, True):
        names = {"alice": f"alice{slow:d}", "bob": f"bob{slow:d}", "nobody-yet": f"nobody{slow:d}"}
        run(home, "register", names["bob"])
        await live.send(names["bob"], {"a": ["b"]})
        await live.send(names["bob"], "over\nlines")
        told[slow] = [
            run(home, *(renamed(word, names) for word in words), stdin=stdin, click=slow)
            for words, stdin in STEPS
        ]
    for (words, _), fast, full in zip(STEPS, told[False], told[True], strict=True):
        assert plain(fast) == plain(full), words


def renamed(word: str, names: dict[str, str]) -> str:
    for name, other in names.items():
        word = re.sub(rf"\b{name}\b", other, word)
    return word


DIFFERING = [
    (r"(?m)^m[0-9a-v]+(?=  )", "ID"),
    (r'"id":"[am][0-9a-v]+"', '"id":"ID"'),
    (r"\b(alice|bob|nobody)[01]\b", r"\1"),
    (r"\d+ (s|min) ago|\bnow\b", "AGE"),
    (r'"(at|connected_at|last_heartbeat)":[\d.]+', r'"\1":0'),
    (r'"hidden":\d+', '"hidden":N'),
    (r"Did you mean [^?]*\?", "Did you mean N?"),
    (r'"suggestions":\[[^]]*\]', '"suggestions":N'),
    (r"\d+ more (is|are) offline", "N offline"),
    (r" +", " "),
]
"""What differs from run to run: ids, times, the names of the two runs, and how many agents they left."""


def plain(done: Done) -> tuple[int, str, str]:
    """Without what differs."""
    out, err = done.out, done.err
    for pattern, word in DIFFERING:
        out, err = re.sub(pattern, word, out), re.sub(pattern, word, err)
    return done.code, out, err


async def test_the_sdk_and_the_command_line_tell_the_same_facts(home: Home, join: Join) -> None:
    bob = await join("bob", capabilities=["review"], metadata={"k": 1})
    sent = json.loads(run(home, "send", "bob", "hi", "--as", "alice", "--json").out)
    (message,) = await bob.messages(wait_s=5)
    assert (sent["id"], sent["status"], message.sender, message.body) == (
        message.id,
        "received",
        "alice",
        "hi",
    )
    await bob.confirm([message])
    await bob.subscribe("#t")
    answer = await bob.send("alice", {"ok": True}, re=message.id)
    (told,) = json.loads(run(home, "inbox", "--as", "alice", "--json").out)["messages"]
    assert (told["id"], told["body"], told["re"], told["from"]) == (
        answer.id,
        {"ok": True},
        message.id,
        "bob",
    )
    for _ in range(2):  # reading receipts changes nothing
        status = json.loads(run(home, "message-status", sent["id"], "--as", "alice", "--json").out)
        assert {each["name"]: each["state"] for each in status["recipients"]} == {"bob": "answered"}
    assert (await bob.status(answer.id)) == {"alice": "read"}
    shown = json.loads(run(home, "info", "bob", "--json").out)
    mine = document(await bob.peer("bob"))
    changing = {"last_heartbeat", "reason"}
    assert {k: v for k, v in shown.items() if k not in changing} == {
        k: v for k, v in mine.items() if k not in changing
    }
    listed = json.loads(run(home, "list", "--all", "--json").out)["agents"]
    assert [agent["name"] for agent in listed] == ["alice", "bob"]
    assert [agent.name for agent in await bob.peers(all=True)] == ["alice"]
    topics = json.loads(run(home, "subscribe", "#t", "--as", "alice", "--json").out)
    assert topics == {"topics": ["#t"]}
    assert (await bob.send("#t", "x")).recipients[0].name == "alice"
    assert json.loads(run(home, "unsubscribe", "#t", "--as", "alice", "--json").out) == {"topics": []}
    past = json.loads(run(home, "history", "--agent", "bob", "--json").out)
    assert {record["id"] for record in past["messages"]} >= {sent["id"], answer.id}
    found = json.loads(run(home, "search", "hi", "--json").out)
    assert [record["id"] for record in found["messages"]] == [sent["id"]]
    assert run(home, "update", "--as", "alice", "--name", "alicia", "--json").code == 0
    assert (await bob.peer("alicia")).status == "offline"


HEAVY = {
    *("click", "msgspec", "asyncio", "socket", "typing", "pathlib", "tellwire.settings"),
    *("json", "re", "enum", "collections", "functools", "site"),
}


@pytest.mark.parametrize(
    "words",
    [
        ("send", "bob", "x", "--as", "alice"),
        ("inbox", "--as", "alice"),
        ("list", "--all"),
        ("status",),
        ("glance",),
    ],
)
def test_the_fast_commands_import_nothing_heavy(home: Home, words: tuple[str, ...]) -> None:
    home.up()
    for name in ("alice", "bob"):
        run(home, "register", name)
    program = (
        "import sys, os\n"
        "def end(code):\n"
        f"    heavy = {HEAVY!r} & set(sys.modules)\n"
        "    sys.stderr.write(repr(sorted(heavy)))\n"
        "    raise SystemExit(code)\n"
        "os._exit = end\n"
        "from tellwire.cli.main import main\n"
        f"sys.argv = ['tellwire', *{list(words)!r}]\n"
        "main()\n"
    )
    done = tellwire_python(home, program)
    assert (done.code, done.err) == (0, "[]")


def tellwire_python(home: Home, program: str, *, site: bool = False) -> Done:
    """Run a program as the console script does; without `site`, the editable install's own start-up too."""
    env = {**home.environment(), "PYTHONPATH": os.path.dirname(os.path.dirname(tellwire.__file__))}
    done = subprocess.run(
        [sys.executable, *([] if site else ["-S"]), "-c", program],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)
