"""Writes market/, the files of each client's market, from the clients' records; `--check` compares them.

The owner of the repository is in release.json alone. While it is empty, files leave out what needs it.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tellwire.clients import BY_NAME
from tellwire.clients.client import ENDPOINT, SERVER, Client, InstallPlace, Programs
from tellwire.clients.entries import Hooks, MemberEntry
from tellwire.clients.plugin import PLACEHOLDER
from tellwire.version import VERSION

ROOT = Path(__file__).parent.parent
SOURCES = Path(__file__).parent / "market"
TARGET = ROOT / "market"
RELEASE = ROOT / "release.json"
SKILL = f"skills/{SERVER}/SKILL.md"
ABOUT = "Coding agents that talk to each other: a local broker whose receipts tell what was read."
"""At most 100 characters: the MCP registry takes no more."""
AUTHORS = "The tellwire authors"
LICENSE = "MIT"
KEYWORDS = ["agents", "coding-agents", "mcp", "messaging", "multi-agent"]
PROGRAM = (SERVER, "mcp", "--plugin")
"""What a plugin that is a program starts as its server: whatever `tellwire` the user has."""
STATE = "(process.env.XDG_STATE_HOME || process.env.HOME + '/.local/state')"
HOME = f"(process.env.TELLWIRE_HOME || {STATE} + '/tellwire')"
"""In JavaScript."""
REGISTRY = "https://static.modelcontextprotocol.io/schemas/2025-09-29/server.schema.json"
ENVIRONMENT = ["TELLWIRE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"]
"""By which tellwire is found, for a client that passes no variables to MCP servers."""

Files = dict[str, str]
"""From each file's path to what is in it."""


class MarketPrograms(Programs, frozen=True, kw_only=True):
    """The programs of a plugin that does not know where tellwire is: a script in its folder finds out."""

    root: str
    """How the client writes the plugin's folder."""

    def _run(self, program: str, kind: str) -> str:
        del kind  # the script knows
        return self._line(program.removesuffix(".py"))

    def gate(self, kind: str) -> str:
        """The script looks for the marks itself."""
        del kind
        return self._line("gate")

    def guard(self, kind: str) -> str:
        """Likewise."""
        del kind
        return self._line("guard")

    def _line(self, word: str) -> str:
        return f'exec sh "{self.root}/{SERVER}.sh" {word}'


def owned() -> dict[str, str]:
    """What follows from the owner: nothing while there is none."""
    owner = json.loads(RELEASE.read_text("utf-8"))["owner"]
    return {"repository": f"https://github.com/{owner}/{SERVER}", "owner": owner} if owner else {}


def address() -> dict[str, str]:
    """The repository, for a manifest."""
    return {name: value for name, value in owned().items() if name == "repository"}


def parts(client: Client, root: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `install` would write for a client: its entry for the MCP server, and its hooks."""
    programs = MarketPrograms(
        server=("sh", f"{root}/{SERVER}.sh", "mcp"), python="", relay="", marks="", root=root
    )
    place = InstallPlace(home="/", project="/", scope="user", env={})
    entries = [entry for target in client.targets(place, programs) for entry in target.entries]
    (server,) = [each.value for each in entries if isinstance(each, MemberEntry) and SERVER in each.path]
    return server, {"hooks": {each.event: each.groups for each in entries if isinstance(each, Hooks)}}


def text(value: Any) -> str:
    """JSON as people read it."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def filled(source: str, **words: str) -> str:
    """A source with its words put in."""
    found = (SOURCES / source).read_text("utf-8")
    for word, value in words.items():
        found = found.replace(f"__{word.upper()}__", value)
    return found


def script(client: Client) -> str:
    """What finds tellwire for a client."""
    return filled(f"{SERVER}.sh", title=client.title, name=client.name, kind=client.kind)


# -- each place ---------------------------------------------------------------------------------------


def claude() -> Files:
    """A marketplace of one plugin."""
    client = BY_NAME["claude"]
    server, hooks = parts(client, "${CLAUDE_PLUGIN_ROOT}")
    about = {"name": SERVER, "description": ABOUT, "version": VERSION}
    plugin = {**about, "author": {"name": AUTHORS}, "license": LICENSE, "keywords": KEYWORDS, **address()}
    market = {
        "name": SERVER,
        "owner": {"name": AUTHORS},
        "metadata": {"description": ABOUT},
        "plugins": [{**about, "source": f"./{client.name}"}],
    }
    return {
        ".claude-plugin/marketplace.json": text(market),
        f"{client.name}/.claude-plugin/plugin.json": text(plugin),
        f"{client.name}/.mcp.json": text({"mcpServers": {SERVER: server}}),
        f"{client.name}/hooks/hooks.json": text(hooks),
        **bundle(client),
    }


def codex() -> Files:
    """A marketplace of one plugin. Its hooks are told where the plugin is, its MCP server is not."""
    client = BY_NAME["codex"]
    server, hooks = parts(client, "${PLUGIN_ROOT}")
    line = f'PATH="$PATH:$HOME/.local/bin"; exec {SERVER} mcp'
    server = {**server, "command": "sh", "args": ["-c", line], "env_vars": ENVIRONMENT}
    plugin = {
        "name": SERVER,
        "version": VERSION,
        "description": ABOUT,
        "author": {"name": AUTHORS},
        "license": LICENSE,
        "keywords": KEYWORDS,
        **address(),
        "skills": "./skills/",
        "mcpServers": "./.mcp.json",
        "hooks": "./hooks/hooks.json",
        "interface": {
            "displayName": SERVER,
            "shortDescription": "Coding agents that talk to each other.",
            "longDescription": ABOUT,
            "developerName": AUTHORS,
            "category": "Productivity",
            "capabilities": ["Interactive", "Write"],
        },
    }
    entry = {
        "name": SERVER,
        "source": {"source": "local", "path": f"./{client.name}"},
        "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
        "category": "Productivity",
    }
    market = {"name": SERVER, "interface": {"displayName": SERVER}, "plugins": [entry]}
    return {
        ".agents/plugins/marketplace.json": text(market),
        f"{client.name}/.codex-plugin/plugin.json": text(plugin),
        f"{client.name}/.mcp.json": text({"mcpServers": {SERVER: server}}),
        f"{client.name}/hooks/hooks.json": text(hooks),
        **bundle(client),
    }


def gemini() -> Files:
    """An extension is the root of its repository."""
    client = BY_NAME["gemini"]
    server, hooks = parts(client, "${extensionPath}")
    server = {key: value for key, value in server.items() if key != "trust"}  # an extension may not say it
    manifest = {"name": SERVER, "version": VERSION, "description": ABOUT, "mcpServers": {SERVER: server}}
    return {
        "gemini-extension.json": text(manifest),
        "hooks/hooks.json": text(hooks),
        f"{SERVER}.sh": script(client),
        SKILL: filled("SKILL.md"),
    }


def opencode() -> Files:
    """An npm package with a plugin of its server and one of its screen."""
    client = BY_NAME["opencode"]
    server = {"type": "local", "command": list(PROGRAM)}
    entries = {".": "./index.js", "./server": "./index.js", "./tui": "./screen.js"}
    files = ["index.js", "plugin.js", "screen.js"]
    more = {"type": "module", "main": "./index.js", "exports": entries, "files": files}
    folder = ROOT / "src" / SERVER / "clients" / client.name
    return {
        f"{client.name}/package.json": text(npm_package(client, [], more)),
        f"{client.name}/index.js": filled("opencode/index.js", server=json.dumps(server)),
        f"{client.name}/plugin.js": found_at_run_time(folder / "plugin.js"),
        f"{client.name}/screen.js": (folder / "screen.js").read_text("utf-8"),
        f"{client.name}/README.md": npm_readme(client, f"opencode plugin --global {npm_name(client)}"),
    }


def pi() -> Files:
    """An npm package with an extension."""
    client = BY_NAME["pi"]
    more = {
        "type": "module",
        "files": ["extension.ts", "skills"],
        "pi": {"extensions": ["./extension.ts"], "skills": ["./skills"]},
    }
    folder = ROOT / "src" / SERVER / "clients" / client.name
    return {
        f"{client.name}/package.json": text(npm_package(client, ["pi-package"], more)),
        f"{client.name}/extension.ts": found_at_run_time(folder / "plugin.ts"),
        f"{client.name}/{SKILL}": filled("SKILL.md"),
        f"{client.name}/README.md": npm_readme(client, f"pi install npm:{npm_name(client)}"),
    }


def registry() -> Files:
    """The MCP registry's description of the server. Its name has the owner in it, and is missing without."""
    known = owned()
    name = {"name": f"io.github.{known['owner']}/{SERVER}"} if known else {}
    source = {"repository": {"url": known["repository"], "source": "github"}} if known else {}
    package = {
        "registryType": "pypi",
        "identifier": SERVER,
        "version": VERSION,
        "transport": {"type": "stdio"},
        "packageArguments": [{"type": "positional", "value": "mcp"}],
    }
    about = {"$schema": REGISTRY, **name, "description": ABOUT, "version": VERSION}
    return {"server.json": text({**about, **source, "packages": [package]})}


def bundle(client: Client) -> Files:
    """What a plugin's folder has besides its manifests."""
    return {
        f"{client.name}/{SERVER}.sh": script(client),
        f"{client.name}/{SKILL}": filled("SKILL.md"),
        f"{client.name}/README.md": plugin_readme(client),
    }


def plugin_readme(client: Client) -> str:
    """What the plugin is and needs."""
    return filled("plugin.md", title=client.title)


def npm_name(client: Client) -> str:
    return f"{SERVER}-{client.name}"


def npm_package(client: Client, keywords: Iterable[str], more: dict[str, Any]) -> dict[str, Any]:
    """A `package.json`."""
    known = owned()
    source = {"repository": {"type": "git", "url": f"git+{known['repository']}.git"}} if known else {}
    return {
        "name": npm_name(client),
        "version": VERSION,
        "description": f"tellwire for {client.title}: {ABOUT[0].lower()}{ABOUT[1:]}",
        "license": LICENSE,
        "author": AUTHORS,
        "keywords": [*keywords, *KEYWORDS],
        **source,
        **more,
    }


def npm_readme(client: Client, command: str) -> str:
    return f"{plugin_readme(client)}\n    {command}\n"


def found_at_run_time(asset: Path) -> str:
    """A plugin that looks for tellwire's home when it is loaded."""
    settings = f"{{ endpoint: {HOME} + '/{ENDPOINT}', server: {json.dumps(PROGRAM)}, source: 'package' }}"
    written = f"written by `tellwire install {asset.parent.name}`"
    return asset.read_text("utf-8").replace(PLACEHOLDER, settings).replace(written, "from a package")


# -- all of them --------------------------------------------------------------------------------------


def market() -> Files:
    """All files."""
    shared = {"README.md": filled("README.md"), "LICENSE": (ROOT / "LICENSE").read_text("utf-8")}
    return {**shared, **claude(), **codex(), **gemini(), **opencode(), **pi(), **registry()}


def main() -> int:
    """Write the folder, or compare it."""
    wanted = market()
    if sys.argv[1:] == ["--check"]:
        there = {
            path.relative_to(TARGET).as_posix(): path.read_text("utf-8")
            for path in TARGET.rglob("*")
            if path.is_file()
        }
        if there != wanted:
            changed = sorted(path for path in {*there, *wanted} if there.get(path) != wanted.get(path))
            sys.stderr.write(f"market/ is out of date ({', '.join(changed)}): run `make markets`\n")
            return 1
        return 0
    target = Path(sys.argv[1]) if sys.argv[1:] else TARGET
    if target == TARGET:
        shutil.rmtree(target, ignore_errors=True)
    for path, content in wanted.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(content, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
