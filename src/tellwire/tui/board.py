"""The lists of a console, each in its place; one of them is the current one and has the keys."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Container

from tellwire.tui import panes
from tellwire.tui.desk import Desk
from tellwire.tui.layout import PANES, Place, arrange, columns
from tellwire.tui.lists import LineList, Look
from tellwire.tui.panes import Content
from tellwire.views.signs import ASCII
from tellwire.views.words import wrap

CYCLE = ("agents", "conversations", "talk", "sheet", "tree", "timeline", "needs")
FEEDS = {
    "agents": {"agents", "children", "claims", "pulses"},
    "needs": {"agents", "mail", "pulses", "links", "faults", "children"},
    "conversations": {"messages", "links", "agents"},
    "talk": {"messages", "links"},
    "tree": {"agents", "children", "claims", "pulses", "faults"},
    "timeline": {"FeedEvent"},
    "sheet": set[str](),
}
"""The tables of the model that each list shows something of."""


class Board(Container):
    """All lists. Which of them are seen depends on the size, and on the current one."""

    def __init__(self, desk: Desk, look: Look) -> None:
        super().__init__(id="board")
        self.pane = "agents"
        self._desk = desk
        self._look = look
        self._places: dict[str, Place] = {}
        self._behind = ""
        """The list that was current before a sheet was opened."""

    def compose(self) -> ComposeResult:
        for name in PANES:
            pane = LineList(self._look, self._rule, id=name)
            pane.follows = name in ("talk", "timeline")
            yield pane

    def pane_of(self, name: str) -> LineList:
        """One of the lists."""
        return self.query_one(f"#{name}", LineList)

    def _rule(self) -> str:
        return "-" if self._desk.signs is ASCII else "─"

    def on_resize(self) -> None:
        self.place_all()

    def place_all(self) -> None:
        """Put each list where it belongs, and paint."""
        if not self.is_attached or not self.size.height:
            return
        count = columns(*self.screen.size)
        sheet = bool(self._desk.sheets)
        self._places = arrange(*self.size, count=count, current=self.pane, sheet=sheet)
        for name in PANES:
            pane, place = self.pane_of(name), self._places.get(name)
            pane.display = place is not None
            if place is not None:
                pane.styles.offset = (place.x, place.y)
                pane.styles.width, pane.styles.height = place.width, place.height
                pane.edge = ("|" if self._desk.signs is ASCII else "│") if place.x else ""
        self.paint()

    def paint(self, changed: set[str] | None = None) -> None:
        """Paint the lists that show something of what changed; all of them if that is not said."""
        for name in self._places:
            if changed is None or changed & FEEDS[name]:
                self._show(name)

    def tick(self) -> None:
        """Time has passed: ages change."""
        for name in self._places:
            self.pane_of(name).repaint()

    def _show(self, name: str) -> None:
        pane = self.pane_of(name)
        width = self._places[name].width - len(pane.edge)
        made: dict[str, Callable[[], Content]] = {
            "agents": lambda: panes.agents_content(self._desk, width),
            "needs": lambda: panes.needs_content(self._desk, width, pane.cursor),
            "conversations": lambda: panes.conversations_content(self._desk, width),
            "talk": lambda: panes.talk_content(self._desk, width),
            "tree": lambda: panes.tree_content(self._desk, width),
            "timeline": lambda: panes.timeline_content(self._desk, width),
            "sheet": lambda: panes.sheet_content(self._desk, width),
        }
        if name == "needs" and self.pane != "needs":
            pane.cursor = self._desk.needs[0].key if self._desk.needs else ""
        content = made[name]()
        empty = wrap(content.empty, indent="", width=max(10, width - 2))
        pane.show(content.title, content.lines, empty=empty)

    # -- what is chosen -------------------------------------------------------------------------------

    def chosen(self, name: str = "") -> str:
        """The key of the chosen item of a list, or of the current one."""
        return self.pane_of(name or self.pane).cursor

    def on_line_list_chosen(self, message: LineList.Chosen) -> None:
        """The choice moved, by key or mouse."""
        name = message.pane.id or ""
        if name == "agents":
            self._desk.agent = message.pane.cursor
        elif name == "needs":
            self._show("needs")
        if name != self.pane:
            self.select(name)

    def select(self, pane: str) -> None:
        """Make a list the current one; `next` and `previous` go round."""
        if pane in ("next", "previous"):
            shown = [each for each in CYCLE if self._can_show(each)]
            at = shown.index(self.pane) if self.pane in shown else 0
            pane = shown[(at + (1 if pane == "next" else -1)) % len(shown)]
        if pane == "sheet" and self.pane != "sheet":
            self._behind = self.pane
        self.pane = pane
        self.place_all()
        self.screen.set_focus(self.pane_of(pane))

    def _can_show(self, pane: str) -> bool:
        if pane == "sheet":
            return bool(self._desk.sheets)
        return pane != "talk" or self._desk.talk is not None

    def back(self) -> None:
        """Close the sheet, or return to where one came from."""
        if self._desk.sheets and self.pane == "sheet":
            self._desk.sheets.pop()
            if self._desk.sheets:
                self.place_all()
            else:
                self.select(self._behind or "agents")
        elif self.pane == "talk":
            self.select("conversations")
        elif self._desk.filter and self.pane == "agents":
            self._desk.filter = ""
            self.place_all()
        else:
            self.select("agents")

    def move(self, action: str) -> None:
        """Move in the current list."""
        pane = self.pane_of(self.pane)
        if action == "down_or_first":
            before = pane.cursor
            pane.move(1)
            if pane.cursor == before:
                pane.home()
            return
        moves: dict[str, Callable[[], None]] = {
            "down": lambda: pane.move(1),
            "up": lambda: pane.move(-1),
            "page_down": lambda: pane.page(1),
            "page_up": lambda: pane.page(-1),
            "first": pane.home,
            "last": pane.end,
        }
        moves[action]()

    def read_now(self) -> set[str]:
        """The messages whose text is on screen, in a conversation or a sheet."""
        return {
            key
            for name in ("talk", "sheet")
            if name in self._places
            for key in self.pane_of(name).on_screen()
        }

    @property
    def shown(self) -> set[str]:
        """The lists that are seen."""
        return set(self._places)
