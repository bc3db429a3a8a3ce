"""What `install` and `uninstall` work on: whose configuration, our programs, the clients that are here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import click
import msgspec

from tellwire.cli.screen import ERR, LINE_WIPED, find_screen, write
from tellwire.clients import BY_NAME
from tellwire.clients.client import InstallPlace, Programs, Scope
from tellwire.install import launcher
from tellwire.install.client_program import InstalledClient, find_version
from tellwire.install.endpoint import load_endpoint
from tellwire.settings import Settings, load_settings

ALL = "all"


class World(msgspec.Struct, frozen=True):
    """What `install` and `uninstall` work on."""

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
    """Ask them for their versions, all at once; a person at the terminal sees whom we wait for."""
    known = [word for word in words if word in BY_NAME]
    ctx = click.get_current_context(silent=True)
    asked_for_json = ctx is not None and ctx.find_root().meta.get("tellwire.json", False)
    person = find_screen(ERR).person and not asked_for_json
    with ThreadPoolExecutor(max_workers=len(BY_NAME)) as pool:
        asked = {pool.submit(find_version, BY_NAME[word], os.environ): word for word in known}
        waiting: set[Future[InstalledClient]] = set(asked)
        while waiting:
            if person:
                names = ", ".join(sorted(asked[each] for each in waiting))
                write(f"{LINE_WIPED}Asking for versions: {names}", ERR)
            _, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        if person:
            write(LINE_WIPED, ERR)
        return {word: answer.result() for answer, word in asked.items()}


def expand(clients: Sequence[str]) -> list[str]:
    """The clients that the arguments name; `all` is every one."""
    if ALL not in clients:
        return list(dict.fromkeys(clients))
    return list(BY_NAME)
