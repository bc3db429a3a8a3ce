"""hcom from PyPI, in a throwaway environment: it has no server, each command opens its database."""

import os
import subprocess
import sys
from pathlib import Path

from bench.command_line import LISTEN_S, CommandLine
from bench.engine import Missing

REQUIREMENT = "hcom==0.7.31"
INSTALL_TIMEOUT_S = 180


def install(folder: Path) -> CommandLine:
    """Install hcom below the folder and join two agents.

    Raises:
        Missing: it cannot be installed or does not start.
    """
    environment = folder / "venv"
    _run([sys.executable, "-m", "venv", str(environment)])
    _run([str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", REQUIREMENT])
    command = str(environment / "bin" / "hcom")
    home = folder / "home"
    home.mkdir()
    variables = {"PATH": os.defpath, "HOME": str(home), "HCOM_DIR": str(home / ".hcom"), "LANG": "C.UTF-8"}
    for name in ("luna", "nova"):
        _run([command, "start", "--as", name], variables)
    return CommandLine(
        name=f"hcom {REQUIREMENT.partition('==')[2]}",
        send=[command, "send", "@luna", "--name", "nova", "--json", "--"],
        listen=[command, "listen", str(LISTEN_S), "--name", "luna", "--json"],
        environment=variables,
    )


def _run(command: list[str], variables: dict[str, str] | None = None) -> None:
    words = " ".join(Path(word).name for word in command[:4])
    try:
        ran = subprocess.run(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{words}: {error}") from error
    if ran.returncode != 0:
        said = (ran.stderr or ran.stdout).strip().splitlines()
        raise Missing(f"{words}: {said[-1] if said else 'failed'}")
