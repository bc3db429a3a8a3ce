"""All settings: default < file < environment < flag. Nothing else reads settings from the environment.

The file is `config.toml` in the home folder; a variable is `TELLWIRE_` and the name in capitals.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from tellwire.core.limits import Limits
from tellwire.core.operator.quiet_hours import parse_quiet
from tellwire.paths import home_path, is_named, kept_environment, socket_path, start_lock_path
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.suggestions import nearest

LOG_LEVELS = ("debug", "info", "warning", "error")
ZERO_ALLOWED = frozenset({"free_bytes_min", "store_bytes_max", "typing"})


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One broker's settings. Times are in seconds."""

    home: Path
    """The folder of the database, the log and the locks."""
    home_named: bool = False
    """Whether the home was named by the caller or the environment, not the default."""
    socket: Path
    """Where the broker listens."""
    heartbeat_s: float = 30.0
    """How often a client without other traffic sends a heartbeat."""
    offline_after_s: float = 90.0
    """An agent that has been silent this long is shown as offline."""
    beat_s: float = 1.0
    """How often the broker checks the clock."""
    greeting_s: float = 10.0
    """A connection that sends no greeting within this time is closed."""
    connections_max: int = 4_096
    """Connections to the broker at once."""
    retention_s: float = 30 * 86_400.0
    """How long history is kept; only time during which the broker runs counts."""
    store_bytes_max: int = 0
    """Largest size of the database file; 0 for no limit."""
    free_bytes_min: int = 256 << 20
    """With less free disk space (5 % of a small disk) only receipts and the operator's mail are stored; 0
    for no limit.
    """
    typing: bool = True
    """Whether an idle agent that cannot be reached otherwise is woken by typing a line into its tmux pane."""
    notify_command: str = "notify-send --app-name=tellwire"
    """The command that notifies you if no console can: the text follows behind `--`. Empty for none."""
    quiet: str = ""
    """Hours in which you are not notified, such as `22:00-07:30`; then one notice tells what there was."""
    checkpoint_prompt: str = ""
    """A turn whose prompt is this text is a checkpoint: its answer goes to nobody else."""
    log_level: str = "info"
    """How much the broker writes to its log: `debug`, `info`, `warning` or `error`."""
    limits: Limits = Limits()
    origins: Mapping[str, str] = {}
    """For each value that is not the default: `file`, `environment` or `flag`."""

    @property
    def database(self) -> Path:
        """The one file that holds everything."""
        return self.home / "tellwire.db"

    @property
    def log(self) -> Path:
        return self.home / "broker.log"

    @property
    def lock(self) -> Path:
        """The file that the running broker has locked."""
        return self.home / "broker.lock"

    @property
    def start_lock(self) -> Path:
        """Held by the process that is starting a broker."""
        return Path(start_lock_path(str(self.home)))


FIVE = ("ttl_s", "retention_s", "typing", "chain_turns_max", "log_level")
"""The settings that people change."""
UNITS = {"_s": "seconds", "_s_max": "seconds", "_bytes_max": "bytes", "_bytes_min": "bytes"}
_OWN = {"home", "home_named", "socket", "limits", "origins"}
_TYPES: dict[str, Any] = {
    **{field.name: field.type for field in msgspec.structs.fields(Settings) if field.name not in _OWN},
    **{field.name: field.type for field in msgspec.structs.fields(Limits)},
}
NAMES: tuple[str, ...] = tuple(sorted(_TYPES))


def load_settings(
    *,
    home: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """Put the settings together.

    Raises:
        TellwireError: `bad_request`: a value is not of its type, or a name is unknown.
    """
    env = os.environ if environment is None else environment
    wanted = None if home is None else os.fspath(home)
    folder = Path(home_path(env, wanted))
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, layer in (
        ("file", _read_file(folder / "config.toml")),
        ("environment", _read_environment(env)),
        ("flag", dict(flags or {})),
    ):
        for name, value in layer.items():
            values[name] = _convert(name, value, origin)
            origins[name] = origin
    limit_names = {field.name for field in msgspec.structs.fields(Limits)}
    limits = Limits(**{name: value for name, value in values.items() if name in limit_names})
    own = {name: value for name, value in values.items() if name not in limit_names}
    named = is_named(env, wanted)
    socket = Path(socket_path(str(folder), env, named=named))
    return Settings(home=folder, home_named=named, socket=socket, limits=limits, origins=origins, **own)


def convert_setting(name: str, value: Any, origin: str) -> Any:
    """A value of a setting, as its type is.

    Raises:
        TellwireError: `bad_request`: it is not of its type, or the name is unknown.
    """
    return _convert(name, value, origin)


def unknown_setting(name: str, origin: str = "") -> TellwireError:
    """The refusal of a setting that does not exist, with the nearest that do."""
    near = nearest(name, NAMES)
    where = f" ({origin})" if origin else ""
    advice = f"Did you mean {' or '.join(near)}?" if near else "List them with `tellwire config list --all`."
    return TellwireError("bad_request", f"Unknown setting {name!r}{where}.", advice)


def unit_of(name: str) -> str:
    """What a setting is counted in; empty for a number of things, a word or a switch."""
    for ending in sorted(UNITS, key=len, reverse=True):
        if name.endswith(ending) and not name.endswith("_per_s_max"):
            return UNITS[ending]
    return ""


def broker_environment(settings: Settings, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a broker started on behalf of a client: scrubbed, with the same settings."""
    env = os.environ if environment is None else environment
    kept = kept_environment(env)
    return {**kept, "TELLWIRE_HOME": str(settings.home)} if settings.home_named else kept


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise TellwireError("bad_request", f"Cannot read {path}: {error}.", "Fix the file.") from error


def _check_words(name: str, value: str, origin: str) -> None:
    """Refuse quiet hours, or a command, that cannot be read."""
    try:
        if name == "quiet":
            parse_quiet(value)
        elif name == "notify_command":
            shlex.split(value)
    except (TellwireError, ValueError) as error:
        words = f"Setting {name!r} ({origin}): {getattr(error, 'message', error)}"
        advice = getattr(error, "advice", "") or "Check its quotes."
        raise TellwireError("bad_request", words, advice) from error


def _read_environment(env: Mapping[str, str]) -> dict[str, str]:
    return {name: env[f"TELLWIRE_{name.upper()}"] for name in NAMES if f"TELLWIRE_{name.upper()}" in env}


def _convert(name: str, value: Any, origin: str) -> Any:
    if name not in _TYPES:
        raise unknown_setting(name, origin)
    try:
        converted = msgspec.convert(value, _TYPES[name], strict=False)
    except msgspec.ValidationError as error:
        raise TellwireError("bad_request", f"Setting {name!r} ({origin}): {error}.") from error
    if isinstance(converted, str):
        if name == "log_level" and converted.lower() not in LOG_LEVELS:
            raise TellwireError(
                "bad_request", f"Setting {name!r} ({origin}) must be one of {', '.join(LOG_LEVELS)}."
            )
        _check_words(name, converted, origin)
    elif not isfinite(converted) or converted < 0 or (converted == 0 and name not in ZERO_ALLOWED):
        raise TellwireError("bad_request", f"Setting {name!r} ({origin}) must be a number above 0.")
    return converted
