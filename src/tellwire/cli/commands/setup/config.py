"""`tellwire config`: the settings, where each comes from, and changing the file without disturbing it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click
import msgspec
from click.shell_completion import CompletionItem

from tellwire.cli.local.holder import find_holder
from tellwire.cli.options import Duration, json_option
from tellwire.cli.render import render_json, render_pairs
from tellwire.cli.screen import ERR, Screen, find_screen, write
from tellwire.cli.speaking import tell_faults
from tellwire.cli.tables import Column, render_table
from tellwire.core.limits import Limits
from tellwire.install.files import check_writable, locked, look, refused, write_whole
from tellwire.install.formats import toml_text
from tellwire.install.formats.jsonc import BadTextError
from tellwire.paths import home_path
from tellwire.protocol.docs import field_docs
from tellwire.protocol.errors import TellwireError
from tellwire.settings import (
    FIVE,
    NAMES,
    Settings,
    convert_setting,
    load_settings,
    unit_of,
    unknown_setting,
)
from tellwire.views.words import clean, wrap

FILE = "config.toml"
FIXED = ("home", "socket")
"""Shown with the settings; they follow from TELLWIRE_HOME."""
SIZES = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "kb": 10**3,
    "m": 10**6,
    "mb": 10**6,
    "g": 10**9,
    "gb": 10**9,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
SWITCH = {"on": "true", "yes": "true", "off": "false", "no": "false"}
RESTART = "The running broker keeps its old value until `tellwire up --replace --detach`; nothing is lost."
NEXT = "It takes effect when the broker starts."


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting as it is now."""

    name: str
    value: Any
    unit: str
    default: Any
    origin: str
    """`default`, `file` or `environment`."""
    description: str


def complete_settings(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of settings."""
    docs = descriptions()
    return [CompletionItem(name, help=docs.get(name, "")) for name in NAMES if name.startswith(incomplete)]


@click.group(invoke_without_command=True)
@click.option("--all", "whole", is_flag=True, help="Show every setting.")
@json_option
@click.pass_context
def config(ctx: click.Context, *, whole: bool, as_json: bool) -> int:
    """Show and change settings.

    A setting comes from `config.toml` in the home folder, from the environment (TELLWIRE_ and its name in
    capitals), or is the default. Without a subcommand it lists them: those that people change and those that
    are not at their default; with --all every one.

    \b
    Examples:
      tellwire config
      tellwire config get ttl_s
      tellwire config set ttl_s 2h
      tellwire config unset ttl_s
      tellwire config --json | jq .ttl_s.value
    """
    return 0 if ctx.invoked_subcommand is not None else show_list(whole=whole, as_json=as_json)


@config.command("list")
@click.option("--all", "whole", is_flag=True, help="Show every setting.")
@json_option
def list_settings(*, whole: bool, as_json: bool) -> int:
    """List settings with their values and origins.

    The five that people change come first, then what is not at its default; with --all every setting.

    \b
    Examples:
      tellwire config list
      tellwire config list --all
      tellwire config list --json | jq 'keys'
    """
    return show_list(whole=whole, as_json=as_json)


@config.command("get")
@click.argument("name", shell_complete=complete_settings)
@json_option
def get_setting(name: str, *, as_json: bool) -> int:
    """Show one setting: its value, unit, default, origin and meaning.

    Without a terminal it prints the value alone, for scripts.

    \b
    Examples:
      tellwire config get ttl_s
      tellwire config get ttl_s --json | jq .default
    """
    settings = load_settings()
    found = {each.name: each for each in describe_settings(settings)}
    if name not in found:
        raise unknown_setting(name)
    setting, screen = found[name], find_screen()
    if as_json:
        write(render_json(msgspec.to_builtins(setting)))
    elif not screen.person:
        write(f"{shown(setting.value)}\n")
    else:
        unit = f" {setting.unit}" if setting.unit else ""
        rows = [
            (setting.name, f"{shown(setting.value) or '(empty)'}{unit}"),
            ("default", f"{shown(setting.default) or '(empty)'}{unit}"),
            ("origin", setting.origin),
        ]
        write(render_pairs(rows, screen))
        write("".join(f"{line}\n" for line in wrap([setting.description], indent="", width=screen.width)))
    return 0


@config.command("set")
@click.argument("name", shell_complete=complete_settings)
@click.argument("value")
@json_option
def set_setting(name: str, value: str, *, as_json: bool) -> int:
    """Change a setting in `config.toml`; comments and order stay.

    Times may be given as 90s, 15min, 2h or 7d, sizes as 64KiB or 2GB, switches as on or off. The broker reads
    its settings when it starts.

    \b
    Examples:
      tellwire config set ttl_s 2h
      tellwire config set store_bytes_max 2GB
      tellwire config set typing off
    """
    if name not in NAMES:
        raise _fixed(name) if name in FIXED else unknown_setting(name)
    converted = convert_setting(name, read_value(name, value), "command line")
    whole = isinstance(converted, float) and converted.is_integer()
    return _change(name, int(converted) if whole else converted, as_json=as_json)


@config.command("unset")
@click.argument("name", shell_complete=complete_settings)
@json_option
def unset_setting(name: str, *, as_json: bool) -> int:
    """Remove a setting from `config.toml`; its default counts again.

    \b
    Examples:
      tellwire config unset ttl_s
    """
    return _change(name, None, as_json=as_json)


def show_list(*, whole: bool, as_json: bool) -> int:
    """Show the settings."""
    settings = load_settings()
    tell_faults(settings)
    rows = describe_settings(settings)
    if as_json:
        keys = ("value", "origin", "unit", "default", "description")
        write(render_json({each.name: {key: getattr(each, key) for key in keys} for each in rows}))
        return 0
    chosen = [each for each in rows if whole or each.name in FIVE or each.origin != "default"]
    screen = find_screen()
    write(render_settings(chosen, screen))
    if len(chosen) < len(rows):
        write(screen.paint(f"{len(rows) - len(chosen)} more: tellwire config list --all", "dim") + "\n")
    return 0


def render_settings(rows: list[Setting], screen: Screen) -> str:
    """A table; the meaning of each setting stands below it."""
    values = [f"{shown(each.value)} {each.unit}".strip() for each in rows]
    columns = [
        Column("SETTING", [each.name for each in rows], style="bold"),
        Column("VALUE", [clean(value) for value in values]),
        Column("ORIGIN", [each.origin for each in rows], styles={"default": "dim"}),
    ]
    heading, *lines = render_table(columns, screen).splitlines()
    text = [heading]
    for line, setting in zip(lines, rows, strict=True):
        below = wrap([clean(setting.description)], indent="  ", width=screen.width)
        text += [line, *(screen.paint(each, "dim") for each in below)]
    return "".join(f"{line}\n" for line in text)


def describe_settings(settings: Settings) -> list[Setting]:
    """All of them: the two places, the five that people change, the rest by name."""
    named = "environment" if settings.home_named else "default"
    values = {**msgspec.structs.asdict(settings.limits), **msgspec.structs.asdict(settings)}
    plain = {**msgspec.structs.asdict(Limits()), **_defaults()}
    docs = descriptions()
    order = [*FIVE, *(name for name in NAMES if name not in FIVE)]
    return [
        Setting(
            name=name,
            value=str(values[name]),
            unit="",
            default="",
            origin=named,
            description=docs.get(name, ""),
        )
        for name in FIXED
    ] + [
        Setting(
            name=name,
            value=values[name],
            unit=unit_of(name),
            default=plain[name],
            origin=settings.origins.get(name, "default"),
            description=docs.get(name, ""),
        )
        for name in order
    ]


def descriptions() -> dict[str, str]:
    """What each setting means."""
    return {**field_docs(Limits), **field_docs(Settings)}


def _defaults() -> dict[str, Any]:
    return {field.name: field.default for field in msgspec.structs.fields(Settings) if field.name in NAMES}


def shown(value: Any) -> str:
    """A value as it is written in the file, but for a text's quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}" if value < 1e6 else f"{value:.0f}"
    return str(value)


def read_value(name: str, text: str) -> Any:
    """What was typed, by the unit of the setting.

    Raises:
        TellwireError: `bad_request`: it has no such unit.
    """
    unit = unit_of(name)
    if unit == "seconds":
        try:
            return Duration().convert(text, None, None)
        except click.UsageError as error:
            raise TellwireError("bad_request", f"{name}: {error.message}", "") from None
    if unit == "bytes":
        found = _SIZE.fullmatch(text.strip())
        if found is None or found[2].lower() not in SIZES:
            words = f"{name}: {text!r} is not a size."
            raise TellwireError("bad_request", words, "Use for example 65536, 64KiB, 500MB or 2GB.")
        return int(float(found[1]) * SIZES[found[2].lower()])
    if name == "typing":
        return SWITCH.get(text.lower(), text)
    return text


def _fixed(name: str) -> TellwireError:
    words = f"The {name} cannot be set in {FILE}."
    return TellwireError("bad_request", words, "Set TELLWIRE_HOME in the environment to move both.")


# -- the file -----------------------------------------------------------------------------------------


def _change(name: str, value: Any, *, as_json: bool) -> int:
    """Write a value, or take it out, and say when it counts."""
    # Not `load_settings`: a mistake in the file must not keep anybody from correcting it.
    home = Path(home_path(os.environ))
    changed = edit_file(home, name, value)
    settings = load_settings()
    setting = next((each for each in describe_settings(settings) if each.name == name), None)
    running = bool(find_holder(settings.lock))
    if as_json:
        told = {
            "name": name,
            "changed": changed,
            "value": None if setting is None else setting.value,
            "origin": "" if setting is None else setting.origin,
            "file": str(home / FILE),
            "restart": changed and running,
        }
        write(render_json(told))
    elif not changed:
        write(f"{clean(name)} is {'not' if value is None else 'already so'} in {home / FILE}.\n")
    else:
        _tell(name, setting, home, running=running)
    return 0


def _tell(name: str, setting: Setting | None, home: Path, *, running: bool) -> None:
    if setting is None:
        write(f"{clean(name)} is no longer in {home / FILE}.\n")
        return
    unit = f" {setting.unit}" if setting.unit else ""
    write(f"{name} = {clean(shown(setting.value))}{unit} ({setting.origin})\n")
    if setting.origin == "environment":
        write(f"TELLWIRE_{name.upper()} in the environment overrides {home / FILE}.\n", ERR)
    write(f"{RESTART if running else NEXT}\n")


def edit_file(home: Path, name: str, value: Any) -> bool:
    """Set a key of the file, or take it out if `value` is None; whether that changed anything.

    Raises:
        TellwireError: the file cannot be read, edited or written; it is as it was then.
    """
    path = str(home / FILE)
    with locked(str(home)):
        seen = look(path)
        try:
            text = (seen.data or b"").decode()
            toml_text.load(text)
            after = toml_text.unset_top(text, name) if value is None else toml_text.set_top(text, name, value)
            expected = {key: each for key, each in toml_text.load(text).items() if key != name}
            expected |= {} if value is None else {name: value}
            if toml_text.load(after) != expected:
                raise BadTextError(text, 0, f"{name} is written in a way that cannot be changed safely")
        except (UnicodeDecodeError, BadTextError) as error:
            words = f"Cannot read {path}: {error}."
            raise TellwireError("bad_request", words, "Fix the file first; it was not changed.") from error
        if after == text:
            return False
        check_writable(path, seen)
        mode = 0o600 if seen.data is None else seen.mode
        try:
            write_whole(seen.path, after.encode(), mode=mode, owner=seen.owner)
        except OSError as error:
            raise refused(path, error) from error
    return True
