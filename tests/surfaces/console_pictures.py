"""The pictures of the console: one story by a clock that stands still, eight screens, as text and as SVG.

`python -m tests.surfaces.console_pictures` writes them into docs/pictures; `--check` tells whether they are
what the code paints (`make screenshots`, and a test).
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tellwire.protocol.operations.links import OpenLink
from tellwire.protocol.operations.scopes import ClaimScope, ScopeRule
from tellwire.views.signs import ASCII, UNICODE
from tests.surfaces.console_world import Screen, World

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
FOREIGN = re.compile(r"@font-face\s*\{[^}]*\}\s*|<!--.*?-->\s*", re.DOTALL)
"""Fonts of another host, and where the picture's maker is found."""


class Look(NamedTuple):
    """One way to look at the console."""

    name: str
    size: tuple[int, int]
    theme: str = "dark"
    ascii: bool = False
    plain: bool = False
    """Without colour."""


VIEWS: dict[str, tuple[str, ...]] = {
    "agents": (),
    "needs": ("n",),
    "conversation": ("escape", "2", "G", "enter"),
    "why": ("w",),
    "inside": ("escape", "1", "G", "i"),
    "files": ("4",),
    "timeline": ("5",),
    "keys": ("question_mark",),
}
"""Each screen, by the keys that lead to it from the one before."""
LOOKS = (
    Look("small-dark", (80, 24)),
    Look("middle-dark", (120, 40)),
    Look("wide-dark", (200, 60)),
    Look("small-light", (80, 24), theme="light"),
    Look("small-plain", (80, 24), plain=True),
    Look("small-ascii", (80, 24), ascii=True),
)
SHOWN = {"middle-dark": "agents", "small-light": "conversation"}
"""The screens that are kept as SVG, for people."""


def story() -> World:
    """Two projects, six agents."""
    world = World()
    for name, kind, project in (
        ("alice", "claude-code", "shop"),
        ("bob", "codex", "shop"),
        ("carol", "gemini-cli", "shop"),
        ("dave", "pi", "api"),
        ("erin", "opencode", "api"),
        ("frank", "codex", "api"),
    ):
        world.join(name, kind, group=f"/home/you/{project}")
    world.ask("bob", ClaimScope(rules=[ScopeRule("/home/you/shop/src/parser")]))
    world.ask(
        "carol", ClaimScope(rules=[ScopeRule("/home/you/shop/tests"), ScopeRule("/home/you/shop/docs")])
    )
    return world


def happens(world: World) -> None:
    """What a morning brings, while the console is open."""
    world.does("alice", "busy")
    world.does("carol", "idle")
    world.does("erin", "idle")
    world.does("frank", "busy")
    first = world.say("alice", "bob", "Could you look at the parser? The error path has no test.")
    world.pass_by(95)
    world.read("bob", first)
    second = world.say("bob", "alice", "It has one: tests/test_parser.py:88. It passes.", re=first)
    world.read("alice", second)
    world.pass_by(60)
    world.say("carol", "alice", "The lexer is mine until two.")
    world.ask("dave", OpenLink(members=["erin"]))
    world.pass_by(30)
    world.say("bob", "operator", "Shall I drop users_old? It is empty.", choices=["yes", "no"])
    world.does("bob", "waiting", "Bash: rm -rf build")
    world.does("dave", "errored")
    world.say("erin", "operator", "The API tests pass on 3.11 to 3.14.")
    world.pass_by(240)


async def take(look: Look) -> dict[str, tuple[str, str]]:
    """Each screen as text with its styles, and as SVG."""
    os.environ.pop("NO_COLOR", None)
    if look.plain:
        os.environ["NO_COLOR"] = "1"
    world = story()
    signs = ASCII if look.ascii else UNICODE
    taken: dict[str, tuple[str, str]] = {}
    async with world.console(look.size, signs=signs, theme=look.theme) as screen:
        happens(world)
        await screen.settle()
        for name, keys in VIEWS.items():
            await screen.press(*keys)
            await settled(screen)
            svg = FOREIGN.sub("", screen.app.export_screenshot(title="tellwire"))
            taken[name] = (described(screen), re.sub(r"terminal-\d+-", "terminal-", svg))
    return taken


def described(screen: Screen) -> str:
    """What is on screen, and below it the styles: for each line how many columns have which."""
    styles: dict[str, str] = {}
    rows: list[str] = []
    for strip in screen.strips():
        runs: list[str] = []
        for segment in strip.simplify():
            letter = styles.setdefault(str(segment.style), chr(ord("a") + len(styles)))
            runs.append(f"{segment.cell_length}{letter}")
        rows.append(" ".join(runs))
    text = [row.rstrip() for row in screen.text.split("\n")]
    legend = [f"{letter}: {style}" for style, letter in styles.items()]
    return "\n".join([*text, "", *rows, "", *legend, ""])


async def settled(screen: Screen) -> None:
    """Wait until what was asked for is painted: the console asks for conversations a moment later."""
    await screen.until(lambda: not screen.app.busy and not screen.app.follower.due)
    screen.app.paint()
    await screen.settle()


def main() -> int:
    """Write the pictures that people see, or check them."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    wrong: list[str] = []
    for look in LOOKS:
        if look.name not in SHOWN:
            continue
        name = SHOWN[look.name]
        path = FOLDER / f"{name}-{look.name}.svg"
        _, svg = asyncio.run(take(look))[name]
        if "--check" not in sys.argv[1:]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(svg, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != svg:
            wrong.append(path.name)
    if wrong:
        print(f"out of date: {', '.join(wrong)}; run make screenshots")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
