"""Full disks and bad files: nothing acknowledged is lost, nothing is overwritten, and the reason is told."""

import asyncio
import errno
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import tellwire
from tellwire.daemon import explain_start
from tests.integration.program import StartProgram
from tests.integration.world import ROOT, WITHIN_S, Home, tellwire_command

ROW = "x" * 4_000


async def fill(alice: tellwire.Agent, to: str) -> list[int]:
    """Send until the disk is full; the numbers of what was acknowledged."""
    for number in range(2_000):
        code = await refusal_of(alice.send(to, {"number": number, "text": ROW}))
        if code != "accepted":
            assert (code, number > 0) == ("storage_full", True)
            return list(range(number))
    raise AssertionError("the disk was never full")


@pytest.mark.requirement("SEC-3", "NET-9", "AUD-6")
async def test_a_full_disk_refuses_writing_serves_reading_and_loses_nothing_acknowledged(
    home: Home, program: StartProgram
) -> None:
    home.up(store_bytes_max=1 << 20, beat_s=0.05)
    bob = await program("bob", autostart=False)
    async with tellwire.connect("alice", home=home.path, autostart=False) as alice:
        receipt = await alice.send("bob", "read before")
        assert await bob.call("confirm", [message["id"] for message in await bob.call("messages", 5)]) == 1
        acked = await fill(alice, "bob")
        assert [peer.name for peer in await alice.peers()] == ["bob"]
        assert await alice.status(receipt.id) == {"bob": "read"}
        assert (await bob.call("peek", 1))[0]["body"]["number"] == 0
        shown = await bob.call("messages", 1, limit=3)
        assert [message["body"]["number"] for message in shown] == acked[:3]
        assert (await bob.call("confirm", [shown[0]["id"]]))["error"] == "storage_full"
        assert "tellwire.db" in home.status()["storage"]
        pid = home.pid
        assert {await refusal_of(alice.send("bob", ROW)) for _ in range(20)} == {"storage_full"}
        assert home.pid == pid
    await bob.kill()
    home.end()
    home.up(store_bytes_max=64 << 20)
    assert home.status()["storage"] == "ok"
    async with tellwire.connect("bob", home=home.path, autostart=False) as again:
        assert again.name == "bob"
        assert await drain(again, len(acked)) == acked
        assert await again.messages(wait_s=0.3) == []


async def refusal_of(call: Awaitable[object]) -> str:
    """The code with which a call is refused."""
    try:
        await call
    except tellwire.TellwireError as error:
        return error.code
    return "accepted"


async def drain(agent: tellwire.Agent, count: int) -> list[int]:
    """The numbers of all messages that come."""
    got: list[int] = []
    while len(got) < count:
        part = await agent.messages(wait_s=5)
        assert part, f"only {len(got)} of {count} came"
        got += [message.body["number"] for message in part]
        await agent.confirm(part)
    return got


@pytest.mark.requirement("NET-9", "SEC-3")
def test_a_broker_that_cannot_store_its_start_says_so_and_starts_with_the_next_command(home: Home) -> None:
    """A lock on the file by another program stands for the full disk."""
    home.up()
    assert home.tellwire("down").returncode == 0
    blocker = sqlite3.connect(home.settings.database, isolation_level=None)
    blocker.execute("begin immediate")
    for words in (("up", "--detach"), ("up",), ("list",)):
        done = home.tellwire(*words)
        assert done.returncode == (74 if words[0] == "up" else 69)
        assert "The broker cannot start." in done.stderr
        assert "continues automatically" not in done.stderr
        assert "Traceback" not in done.stderr
    blocker.execute("rollback")
    blocker.close()
    assert home.tellwire("list").returncode == 0


@pytest.mark.parametrize(
    ("error", "free", "told"),
    [
        (
            tellwire.TellwireError("storage_full", "The file is full."),
            1000,
            "has 0 KiB free; 1024 KiB are needed",
        ),
        (tellwire.TellwireError("storage_broken", "I/O error."), 1000, "has 0 KiB free"),
        (OSError(errno.ENOSPC, "No space left"), 1000, "has 0 KiB free"),
        (OSError(errno.EDQUOT, "Quota exceeded"), 1 << 30, "Quota exceeded"),
        (OSError(errno.EIO, "I/O error"), 1000, "has 0 KiB free"),
        (OSError(errno.EROFS, "Read-only file system"), 1 << 30, "Read-only file system"),
        (tellwire.TellwireError("storage_full", "It is locked."), 1 << 30, "It is locked"),
    ],
)
def test_a_full_disk_at_the_start_is_told_in_full(
    error: OSError | tellwire.TellwireError, free: int, told: str
) -> None:
    explained = explain_start(error, Path("/home/u/tellwire"), free)
    assert isinstance(explained, tellwire.TellwireError)
    assert (explained.code, told in explained.message) == ("storage_full", True)
    assert "try again" in explained.advice


def test_what_is_no_full_disk_is_told_as_it_is() -> None:
    for error in (tellwire.TellwireError("database_corrupt", "x"), OSError(errno.EACCES, "x")):
        assert explain_start(error, Path("/x"), 1 << 30) is error


@pytest.mark.requirement("NET-9")
async def test_the_broker_goes_on_by_itself_once_the_disk_has_room_again(home: Home) -> None:
    """A lock on the file by another program stands for the full disk: both clear by themselves."""
    home.up(beat_s=0.05)
    async with (
        tellwire.connect("alice", home=home.path, autostart=False) as alice,
        tellwire.connect("bob", home=home.path, autostart=False) as bob,
    ):
        blocker = sqlite3.connect(home.settings.database, isolation_level=None)
        blocker.execute("begin immediate")
        assert await refusal_of(alice.send("bob", "not now")) == "storage_full"
        assert [peer.name for peer in await alice.peers()] == ["bob"]
        blocker.execute("rollback")
        blocker.close()
        bodies: list[str] = []
        async with asyncio.timeout(WITHIN_S):
            while "now" not in bodies:
                await refusal_of(alice.send("bob", "now"))
                bodies += [message.body for message in await bob.messages(wait_s=0.1)]
        assert "not now" not in bodies
        assert home.status()["storage"] == "ok"


# -- a file that cannot be used -----------------------------------------------------------------------


def damage_head(path: Path) -> None:
    """Not a database at all."""
    path.write_bytes(b"this is no database, and it is precious\n" * 100)


def damage_page(path: Path) -> None:
    """The first page is garbage behind a good header."""
    data = bytearray(path.read_bytes())
    data[100:3_000] = os.urandom(2_900)
    path.write_bytes(data)


def damage_journal(path: Path) -> None:
    """A sound database whose history was changed."""
    change(path, "update journal set data = x'5b5d' where seq = (select min(seq) from journal)")


def make_newer(path: Path) -> None:
    """A schema of a later version."""
    change(path, "pragma user_version = 99")


def make_foreign(path: Path) -> None:
    """A database of another program."""
    path.unlink()
    change(path, "create table recipes (name text)")


def change(path: Path, statement: str) -> None:
    """Carry out one statement, and leave one file."""
    database = sqlite3.connect(path)
    database.execute(statement)
    database.commit()
    database.execute("pragma wal_checkpoint(truncate)")
    database.close()


@pytest.mark.requirement("NET-9", "SEC-3")
@pytest.mark.parametrize(
    ("harm", "code", "words"),
    [
        (damage_head, 74, "damaged"),
        (damage_page, 74, "damaged"),
        (damage_journal, 74, "damaged"),
        (make_newer, 76, "newer tellwire"),
        (make_foreign, 74, "not one of tellwire's"),
    ],
)
async def test_a_file_that_is_damaged_newer_or_foreign_is_refused_and_left_as_it_is(
    home: Home, harm: Callable[[Path], None], code: int, words: str
) -> None:
    async with tellwire.connect("alice", home=home.path), tellwire.connect("bob", home=home.path) as bob:
        await bob.send("alice", "precious")
    home.signal(home.KILL)
    home.end()
    path = home.settings.database
    change(path, "select 1")
    harm(path)
    before = path.read_bytes()
    done = home.tellwire("up", "--detach")
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    async with asyncio.timeout(5):
        with pytest.raises(tellwire.TellwireError) as refused:
            await tellwire.connect("alice", home=home.path).__aenter__()
    assert refused.value.code == "not_started"
    assert words in refused.value.message
    assert path.read_bytes() == before
    assert not home.starters()


@pytest.mark.requirement("NET-9", "SEC-3")
def test_a_read_only_database_is_refused_at_the_start_and_left_as_it_is(home: Home) -> None:
    with tellwire.connect_sync("alice", home=home.path):
        pass
    assert home.tellwire("down").returncode == 0
    path = home.settings.database
    before = path.read_bytes()
    path.chmod(0o400)
    done = subprocess.run(
        [*as_plain_owner(), *tellwire_command("up", "--detach")],
        env=home.environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 74, done.stderr
    assert str(path) in done.stderr
    assert "readonly" in done.stderr or "read-only" in done.stderr
    assert path.read_bytes() == before
    path.chmod(0o600)
    home.up()


def as_plain_owner() -> list[str]:
    """Before a command: root, too, shall obey the modes of files."""
    if os.getuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    assert setpriv is not None, "setpriv (util-linux) is needed to run this as root"
    return [setpriv, "--bounding-set=-dac_override,-dac_read_search"]
