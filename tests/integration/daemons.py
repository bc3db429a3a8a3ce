"""The real sshd, sudo and cron, which scripts/setup-debs has unpacked: run without installing them.

Each runs in a mount namespace of its own, so that it finds its files where it looks for them, and this
machine keeps its own. The daemons leave their parent, as they do on any machine; a test's folder has their
pids.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import socket
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

from tellwire.system.processes import Process, is_alive, read_process
from tests.integration.world import ROOT, WITHIN_S, Home, until

DEBS = ROOT / ".debs"
OVERLAY = Path(__file__).with_name("overlay.sh")
PORTS_TRIED = 5
SSHD = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile {folder}/sshd.pid
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
"""
CLIENT = """
Host here
HostName 127.0.0.1
Port {port}
User root
IdentityFile {folder}/user_key
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile {folder}/known_hosts
StrictHostKeyChecking accept-new
LogLevel ERROR
"""


@cache
def missing() -> str:
    """Why the programs cannot be run here; empty if they can."""
    if not (DEBS / "ready").exists():
        told = DEBS / "missing"
        return told.read_text().strip() if told.exists() else "run scripts/setup-debs by `make test`"
    tried = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"mount -t overlay none -o lowerdir={DEBS}/root/usr:/usr /usr"],
        capture_output=True,
        text=True,
        check=False,
    )
    return tried.stderr.strip() if tried.returncode else ""


def inside(folder: Path, *words: str) -> list[str]:
    """The command line that runs a program with the packages laid over this machine."""
    return ["unshare", "-m", "sh", str(OVERLAY), str(DEBS), str(folder), *words]


def sudo(folder: Path, words: str, *, use_pty: bool) -> str:
    """Shell words: the same user's command, by sudo."""
    rules = folder / "etc" / "sudoers"
    rules.parent.mkdir(exist_ok=True)
    rules.write_text(f"Defaults {'' if use_pty else '!'}use_pty\nroot ALL=(ALL:ALL) ALL\n")
    rules.chmod(0o440)
    kept = 'env TELLWIRE_HOME="$TELLWIRE_HOME"'
    return f"{shlex.join(inside(folder, 'sudo', '-u', 'root'))} {kept} {words}"


class Sshd:
    """A server on loopback with keys of its own, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.pid = 0

    def prepare(self) -> None:
        """Make its keys."""
        for name in ("host_key", "user_key"):
            keygen = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name))
            subprocess.run(inside(self.folder, *keygen), check=True, timeout=WITHIN_S)

    def words(self) -> list[str]:
        """The command line that starts it on a port that is free now."""
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        for name, text in (("sshd_config", SSHD), ("ssh_config", CLIENT)):
            (self.folder / name).write_text(text.format(folder=self.folder, port=self.port))
        log = str(self.folder / "sshd.log")
        return inside(self.folder, "/usr/sbin/sshd", "-f", str(self.folder / "sshd_config"), "-E", log)

    def ssh(self, *words: str) -> list[str]:
        """The command line of the client."""
        return inside(self.folder, "ssh", "-F", str(self.folder / "ssh_config"), *words)

    async def start(self) -> None:
        """Start it as a daemon that nobody but init is above."""
        self.prepare()
        for _ in range(PORTS_TRIED):
            started = await asyncio.create_subprocess_exec(*self.words(), stdin=asyncio.subprocess.DEVNULL)
            if await started.wait() == 0:
                break
        await self.listens()

    async def listens(self) -> None:
        """Wait until it does."""
        file = self.folder / "sshd.pid"
        await until(lambda: file.exists() and file.read_text(), what=f"sshd: {self.log}")
        self.pid = int(file.read_text())

    @property
    def log(self) -> str:
        """What it has to complain of."""
        file = self.folder / "sshd.log"
        return file.read_text() if file.exists() else ""

    async def stop(self) -> None:
        """End it and its sessions."""
        await end(self.folder / "sshd.pid")


def cron(home: Home, folder: Path, script: str) -> list[str]:
    """The command line of a cron that nobody but init is above, runs a script at once, and leaves its pid."""
    job = folder / "job.sh"
    job.write_text(script)
    jobs = folder / "etc" / "cron.d" / "jobs"
    jobs.parent.mkdir(parents=True, exist_ok=True)
    jobs.write_text(f"TELLWIRE_HOME={home.path}\n@reboot root sh {job}\n")
    pid, log = (shlex.quote(str(folder / name)) for name in ("cron.pid", "cron.log"))
    begin = f"echo $$ > {pid}; exec /usr/sbin/cron -f > {log} 2>&1 < /dev/null"
    return ["setsid", "-f", *inside(folder, "sh", "-c", begin)]


async def end(pid_file: Path) -> None:
    """End a daemon, if it has begun, and all that is beneath it."""
    family = beneath(pid_file)
    for each in family:
        with suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)
    await until(lambda: not any(is_alive(each.key) for each in family), what=f"{family} have ended")


def beneath(pid_file: Path) -> list[Process]:
    """A daemon, if it has begun, and all beneath it."""
    pid = int(pid_file.read_text()) if pid_file.exists() else 0
    found = [read_process(int(entry.name)) for entry in os.scandir("/proc") if entry.name.isdigit()]
    processes = [each for each in found if each is not None]
    family = [each for each in processes if each.pid == pid]
    for above in family:
        family += [each for each in processes if each.parent == above.pid]
    return family


def listeners(pid: int) -> list[str]:
    """The addresses at which a process listens for TCP, as the kernel writes them."""
    inodes = {
        link[8:-1]
        for entry in os.scandir(f"/proc/{pid}/fd")
        if (link := os.readlink(entry.path)).startswith("socket:[")
    }
    rows = [line.split() for name in ("tcp", "tcp6") for line in _rows(name)]
    return [row[1] for row in rows if row[3] == "0A" and row[9] in inodes]


def _rows(name: str) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    return []
