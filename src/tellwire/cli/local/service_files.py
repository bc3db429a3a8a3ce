"""The broker as a service of the user: a systemd user unit, or a launchd agent. Text only; nothing is run."""

from __future__ import annotations

import os
import plistlib
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

LABEL = "tellwire"
MARK = "Written by `tellwire service install`"
SYSTEMD, LAUNCHD = "systemd", "launchd"
MANAGERS = (SYSTEMD, LAUNCHD)
_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:@,"


class ServiceFile(NamedTuple):
    """One file for a service manager, and what to type to have it read."""

    manager: str
    path: str
    text: str
    start: str
    stop: str


def usual_manager() -> str:
    """The service manager of this kind of system."""
    return LAUNCHD if sys.platform == "darwin" else SYSTEMD


def service_file(
    manager: str, command: Sequence[str], *, home: str, env: Mapping[str, str], variables: Mapping[str, str]
) -> ServiceFile:
    """The file for a manager; `variables` are set for the broker."""
    if manager == LAUNCHD:
        path = os.path.join(home, "Library", "LaunchAgents", f"{LABEL}.plist")
        return ServiceFile(
            manager,
            path,
            render_plist(command, variables),
            f"launchctl bootstrap gui/$(id -u) {path}",
            f"launchctl bootout gui/$(id -u)/{LABEL}",
        )
    config = env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return ServiceFile(
        manager,
        os.path.join(config, "systemd", "user", f"{LABEL}.service"),
        render_unit(command, variables),
        f"systemctl --user daemon-reload && systemctl --user enable --now {LABEL}",
        f"systemctl --user disable --now {LABEL}",
    )


def render_unit(command: Sequence[str], variables: Mapping[str, str]) -> str:
    """A systemd user unit."""
    words = [unit_word(f"{name}={value}") for name, value in variables.items()]
    environment = "".join(f"Environment={word}\n" for word in words)
    return (
        f"# {MARK}; `tellwire service remove` removes it.\n"
        "[Unit]\n"
        "Description=tellwire, the broker between coding agents\n"
        "\n"
        "[Service]\n"
        "Type=simple\n"
        f"ExecStart={' '.join(map(unit_word, command))}\n"
        f"{environment}"
        "Restart=on-failure\n"
        "RestartSec=1\n"
        "\n"
        "[Install]\n"
        "WantedBy=default.target\n"
    )


def unit_word(text: str) -> str:
    """One word of a unit's command line: quoted where systemd would split or expand it."""
    doubled = text.replace("%", "%%")
    if doubled and all(sign in _PLAIN or sign == "%" for sign in doubled):
        return doubled
    escaped = doubled.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t") + '"'


def render_plist(command: Sequence[str], variables: Mapping[str, str]) -> str:
    """A launchd agent."""
    facts = {
        "Label": LABEL,
        "ProgramArguments": list(command),
        "EnvironmentVariables": dict(variables),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ProcessType": "Background",
    }
    head, _, rest = plistlib.dumps(facts).decode().partition("<plist")
    return f"{head}<!-- {MARK} -->\n<plist{rest}"


def is_ours(text: str) -> bool:
    """Whether a file was written by us."""
    return MARK in text[:1_000]
