"""What `install` and `uninstall` work on: whose configuration, our programs, the clients that are here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from tellwire.clients import BY_NAME
from tellwire.clients.client import InstallPlace, Programs, Scope
from tellwire.install import launcher
from tellwire.install.client_program import InstalledClient, find_version
from tellwire.install.endpoint import load_endpoint
from tellwire.settings import Settings, load_settings

ALL = "all"


class World(msgspec.Struct, frozen=True):
    """What the commands work on."""

    settings: Settings
    place: InstallPlace
    programs: Programs


def find_world(scope: Scope, *, fixed: bool, plugin: str = "") -> World:
    """Look around; `fixed` chooses nothing that is not chosen yet."""
    settings = load_settings()
    home = str(settings.home)
    if not fixed:
        load_endpoint(home)  # plugins look for it there
    programs = launcher.programs(home, named=settings.home_named)
    place = InstallPlace(
        home=os.path.expanduser("~"), project=os.getcwd(), scope=scope, env=os.environ, plugin=plugin
    )
    return World(settings, place, programs)


def find_clients(words: Sequence[str]) -> dict[str, InstalledClient]:
    """Ask them for their versions, all at once."""
    known = [word for word in words if word in BY_NAME]
    with ThreadPoolExecutor(max_workers=len(BY_NAME)) as pool:
        asked = {word: pool.submit(find_version, BY_NAME[word], os.environ) for word in known}
        return {word: answer.result() for word, answer in asked.items()}


def expand(clients: Sequence[str]) -> list[str]:
    """The clients that are meant."""
    if ALL not in clients:
        return list(dict.fromkeys(clients))
    return list(BY_NAME)
