"""The console itself: a header, the board of lists, the foot. It holds no rule: `views` says what is shown,
`actions` what keys do, `asking` what is sent.
"""

from __future__ import annotations

import asyncio
import locale
import logging
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple, TypeAlias

from textual import events
from textual.app import App, ComposeResult
from textual.theme import Theme as TextualTheme

from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.needs import Notice
from tellwire.sdk.connect import broker_address
from tellwire.settings import Settings
from tellwire.system.tasks import Tasks, owned
from tellwire.tui import actions, asking, panes
from tellwire.tui.board import Board
from tellwire.tui.bridge import Bridge, LiveWire, Wire
from tellwire.tui.desk import Desk
from tellwire.tui.foot import Foot
from tellwire.tui.hands import Abilities, Hands
from tellwire.tui.layout import HEIGHT_MIN, WIDTH_MIN, fits
from tellwire.tui.lists import Bar
from tellwire.tui.paint import THEMES, Palette, Span
from tellwire.tui.signals import Person
from tellwire.version import VERSION
from tellwire.views.signs import ASCII, UNICODE, Signs
from tellwire.views.words import ELLIPSIS, wrap

log = logging.getLogger("tellwire.tui")

TICK_S = 1.0
FRESH_MAX = 1_000
Job: TypeAlias = Coroutine[Any, Any, None]
ASK_S = 3.0
"""Between two questions to the broker for what it tells of conversations."""
LIGHT_FROM = 7
"""Background colours of COLORFGBG from here on are light, except for 8."""


class Look(NamedTuple):
    """How the console looks."""

    signs: Signs
    theme: str = "dark"


class Follower:
    """Keeps what the broker tells of conversations up to date: it is asked again when something happened."""

    def __init__(self, desk: Desk, work: Callable[[Job], None], repaint: Callable[[set[str]], None]) -> None:
        self._desk = desk
        self._work = work
        self._repaint = repaint
        self._told = 0
        """The last event that the open conversation was compared with."""
        self._due: asyncio.TimerHandle | None = None

    @property
    def due(self) -> bool:
        """Whether the broker is asked soon."""
        return self._due is not None

    def ask_soon(self) -> None:
        """Ask who talks with whom, at most once in a while."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(ASK_S, self.ask)

    def ask(self) -> None:
        """Ask now."""

        async def load() -> None:
            self._due = None
            await self._desk.load_conversations()
            self._repaint({"messages"})

        self._work(load())

    def compare(self) -> None:
        """Ask for the open conversation again if something happened to it."""
        talk, model = self._desk.talk, self._desk.model
        fresh = [event for event in reversed(model.timeline) if event.seq > self._told] if talk else []
        self._told = model.seq

        async def load() -> None:
            if talk is not None:
                await talk.load(self._desk.wire, model)
                self._repaint({"messages"})

        if talk is not None and (
            talk.stale or any(talk.concerns(event, model) for event in fresh[:FRESH_MAX])
        ):
            talk.stale = False
            self._work(load())

    def stop(self) -> None:
        """Ask no more."""
        if self._due is not None:
            self._due.cancel()


class Console(App[None]):
    """One console. It ends with `failed` set if the broker wants nothing to do with it."""

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    CSS = """
    Screen { layout: vertical; overflow: hidden; }
    Board { height: 1fr; width: 100%; overflow: hidden; }
    Board > LineList { position: absolute; }
    Foot { height: auto; width: 100%; }
    Bar { height: 1; width: 100%; }
    Prompt { height: auto; width: 100%; }
    #small { height: 100%; display: none; }
    """

    def __init__(self, wire: Wire, *, look: Look, abilities: Abilities, clock: Callable[[], float]) -> None:
        super().__init__()
        self._bridge = Bridge(wire, self._changed, self._notify)
        self.desk = Desk(wire, self._bridge.model, clock=clock, signs=look.signs)
        self._hands = Hands(self, self.desk, abilities=abilities, look_like=self.look_like, paint=self.paint)
        self.follower = Follower(self.desk, self.work, self._repaint)
        self._person = Person(wire, clock, self.work)
        self._palette = Palette(THEMES[look.theme], _ellipsis(self.desk.signs))
        self._seen: set[str] = set()
        """Messages to the person that were on screen at the last tick."""
        self._tasks = Tasks()
        self._watching: asyncio.Task[None] | None = None
        self._lost_at = 0.0
        self.failed: TellwireError | None = None

    # -- the screen -----------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Bar(self._look, id="header")
        yield Board(self.desk, self._look)
        yield Foot(self._look, lambda: self.desk.signs, self._focus_list)
        yield Bar(self._look, id="small")

    def on_mount(self) -> None:
        self.look_like(self._palette.theme.name)
        self.board.select("agents")
        self.set_interval(TICK_S, self._tick)
        self._watching = owned(self._watch())

    def _look(self) -> Palette:
        return self._palette

    @property
    def board(self) -> Board:
        return self.query_one(Board)

    @property
    def foot(self) -> Foot:
        return self.query_one(Foot)

    @property
    def pane(self) -> str:
        """The current list."""
        return self.board.pane

    def look_like(self, theme: str) -> None:
        """Change the theme."""
        chosen = THEMES[theme]
        self._palette = Palette(chosen, _ellipsis(self.desk.signs))
        if chosen.ansi:
            self.theme = "ansi-dark"  # Textual's own, which needs more names than a plain theme
        else:
            name, text, back = f"tellwire-{theme}", chosen.text, chosen.back
            self.register_theme(
                TextualTheme(
                    name=name, primary=text, foreground=text, background=back, surface=back, dark=chosen.dark
                )
            )
            self.theme = name
        self.refresh(layout=True)
        for widget in self.query("LineList, Bar, Prompt"):
            widget.refresh()

    def on_resize(self, event: events.Resize) -> None:
        width, height = event.size
        small = not fits(width, height)
        for name in ("header", "board", "foot"):
            self.query_one(f"#{name}").display = not small
        bar = self.query_one("#small", Bar)
        bar.display = small
        if small:
            words = (
                f"tellwire needs {WIDTH_MIN} x {HEIGHT_MIN} characters; this terminal has {width} x {height}."
            )
            bar.show([(Span(text),) for text in wrap([words], indent="", width=width)])
        else:
            self.paint()

    # -- changes --------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        try:
            await self._bridge.run()
        except TellwireError as error:
            self.failed = error
            self.exit()

    def _changed(self, changed: set[str]) -> None:
        """The picture changed."""
        if not self.is_running or not self.query(Board):
            return
        if changed & {"agents", "mail", "pulses", "links", "faults"}:
            self.desk.look()
        if not self.desk.agent and self.desk.model.agents:
            changed = {*changed, "agents"}
        if "OverviewPage" in changed:
            self.desk.ready = True
            self._person.tell()
            self.follower.ask()
        elif "messages" in changed:
            self.follower.ask_soon()
        self.follower.compare()
        self.board.paint(changed)
        self.desk.agent = self.board.chosen("agents")
        self._header()

    def _tick(self) -> None:
        """Once a second: ages, what needs the person by now, and what they have read."""
        before = self.desk.needs
        self.desk.look()
        if [need.key for need in before] != [need.key for need in self.desk.needs]:
            self.board.paint({"mail"})
        self.board.tick()
        self._header()
        mail = self.desk.model.mail
        now = {key for key in self.board.read_now() if key in mail and mail[key].unread}
        self._person.tell()
        read = now & self._seen if self._person.looking else set[str]()
        self._seen = now - read
        if read:
            self.work(asking.confirm(self.desk, sorted(read)))

    def _header(self) -> None:
        trouble = ""
        if not self.desk.wire.connected:
            self._lost_at = self._lost_at or self.desk.now
            trouble = f"reconnecting {self.desk.now - self._lost_at:.0f} s"
        else:
            self._lost_at = 0.0
        self.query_one("#header", Bar).show([panes.header(self.desk, self.size.width, trouble)])

    def _repaint(self, changed: set[str]) -> None:
        if self.is_running and self.query(Board):
            self.board.paint(changed)

    def on_unmount(self) -> None:
        self.follower.stop()
        self._tasks.cancel()
        for task in [self._watching] if self._watching else []:
            task.cancel()

    def paint(self) -> None:
        """Paint everything anew."""
        self.desk.look()
        self.board.place_all()
        self.foot.paint()
        self._header()

    # -- the person -----------------------------------------------------------------------------------

    def on_app_focus(self) -> None:
        self._person.focus(has_focus=True)

    def on_app_blur(self) -> None:
        self._person.focus(has_focus=False)

    def _notify(self, notice: Notice) -> None:
        """Get the person's attention."""

        def write(text: str) -> None:
            if self._driver is not None:
                self._driver.write(text)
                self._driver.flush()

        self._person.notify(notice, write)

    # -- doing ----------------------------------------------------------------------------------------

    def work(self, job: Job) -> None:
        """Run something in the background; a refusal is shown."""

        async def guarded() -> None:
            try:
                await job
            except TellwireError as error:
                self.foot.refuse(error)
            except Exception as error:
                log.exception("a job of the console failed")
                self.foot.refuse(TellwireError("internal", f"That failed: {error!r}."))

        self._tasks.run(guarded())

    @property
    def busy(self) -> bool:
        """Whether something is under way: a job, or a change that is not painted."""
        return bool(self._tasks) or self._bridge.due

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key | events.MouseDown):
            self._person.active()
        await super().on_event(event)

    def on_key(self, event: events.Key) -> None:
        """A key that came to a list, or was on its way there when the prompt was opened."""
        event.stop()
        if self.foot.question is not None:
            self.foot.prompt.take(event)
            return
        self.foot.key_pressed()
        try:
            job = actions.press(self._hands, event.key, event.character)
        except TellwireError as error:
            self.foot.refuse(error)
            return
        if job is not None:
            self.work(job)

    def on_foot_answered(self, message: Foot.Answered) -> None:
        """Carry out what was asked for; a text that is refused is not lost."""
        question, text = message.question, message.text

        async def carry_out() -> None:
            try:
                told = await question.done(text)
            except TellwireError:
                if text.strip() and self.foot.question is None:
                    self.foot.keep(question, text)
                    self.foot.ask(question._replace(text=text))
                raise
            if told:
                self.foot.tell(told)

        self.work(carry_out())

    def _focus_list(self) -> None:
        """Keys go to the lists again."""
        self.screen.set_focus(self.board.pane_of(self.board.pane))


# -- opening ------------------------------------------------------------------------------------------


def run_console(settings: Settings, abilities: Abilities) -> None:
    """Open the console, and return when the person leaves it.

    Raises:
        TellwireError: no broker can be reached, or it refuses.
    """
    asyncio.run(_run(settings, abilities))


async def _run(settings: Settings, abilities: Abilities) -> None:
    address = broker_address(settings, program=f"tui {VERSION}", autostart=True)
    plain = os.environ.get("NO_COLOR")
    async with LiveWire(address) as wire:
        console = Console(wire, look=find_look(os.environ), abilities=abilities, clock=time.time)
        if plain is not None:
            os.environ["NO_COLOR"] = plain  # Textual takes it away; programs that we start want it
        await console.run_async()
        if console.failed is not None:
            raise console.failed


def _ellipsis(signs: Signs) -> str:
    return "." if signs is ASCII else ELLIPSIS


def find_look(environment: Mapping[str, str], encoding: str = "") -> Look:
    """Light or dark as the terminal says, and signs that it can show."""
    encoding = encoding or locale.getpreferredencoding(do_setlocale=False)
    unicode = encoding.casefold().replace("-", "") == "utf8" and environment.get("TERM") != "linux"
    back = environment.get("COLORFGBG", "").rpartition(";")[2]
    light = back.isdigit() and int(back) >= LIGHT_FROM and int(back) != LIGHT_FROM + 1
    return Look(UNICODE if unicode else ASCII, "light" if light else "dark")
