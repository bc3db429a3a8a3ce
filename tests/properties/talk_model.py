"""What a conversation on links must come to, told once more and plainly: the model of the state machine."""

from __future__ import annotations

from dataclasses import dataclass, field

BARE = frozenset({"ok", "thanks"})


@dataclass
class LinkModel:
    """One link."""

    members: list[str]
    direct: bool
    shares: dict[str, str]
    status: str = "active"
    turns: int = 0
    said: int = 0
    spoke: dict[str, bool] = field(default_factory=dict[str, bool])
    words: dict[str, str] = field(default_factory=dict[str, str])
    bare: str = ""

    def resume(self) -> None:
        """A fresh start."""
        self.status, self.turns, self.words, self.bare = "active", 0, {}, ""


@dataclass
class Talk:
    """All links, and what each agent has heard on them and not dealt with: link by message, read or not."""

    turns_max: int
    links: dict[str, LinkModel] = field(default_factory=dict[str, LinkModel])
    heard: dict[str, list[tuple[str, bool]]] = field(default_factory=dict[str, list[tuple[str, bool]]])
    reports: set[str] = field(default_factory=set[str])
    """Agents whose client has told of a turn."""

    def of(self, agent: str) -> list[str]:
        """The links an agent is in, in the order it came in."""
        return [key for key, link in self.links.items() if link.status != "closed" and agent in link.members]

    def open(self, key: str, members: list[str], shares: dict[str, str]) -> None:
        """A new link."""
        self.links[key] = LinkModel(list(members), len(members) == 2, shares)

    def cross(self, key: str, sender: str, *, human: bool = False) -> tuple[str, list[str]]:
        """Something is said: who hears it."""
        link = self.links[key]
        if not link.spoke.get(sender):
            link.turns += 1
        link.said += 1
        link.spoke[sender] = True
        link.bare = ""
        if sender not in self.reports:
            self._deal(sender)
        others = [member for member in link.members if member != sender]
        for other in others:
            link.spoke[other] = False
            self.heard.setdefault(other, []).append((key, False))
        if not human and link.turns >= self.turns_max:
            link.status = "paused"
        return key, others

    def turn(self, agent: str, text: str, outcome: str, *, human: bool) -> list[tuple[str, list[str]]]:
        """A turn ends: what crosses where."""
        crossed: list[tuple[str, list[str]]] = []
        if outcome == "waiting":
            self.reports.add(agent)
            return crossed
        heard = {key for key, read in self.heard.get(agent, []) if read}
        speaking: list[str] = []
        for key in self.of(agent):
            link = self.links[key]
            if human and link.status == "paused":
                link.resume()
            elif link.status != "active":
                continue
            wanted = key in heard or (link.shares.get(agent, "all") == "all" and (human or not heard))
            if outcome != "ended" or not text or not wanted:
                continue
            nothing_new = link.words.get(agent) == text or (text in BARE and link.bare not in ("", agent))
            if nothing_new and not human:
                link.status = "paused"
                continue
            speaking.append(key)
        self.reports.add(agent)
        for key in speaking:
            crossed.append(self.cross(key, agent, human=human))
        for key in self.of(agent):
            link = self.links[key]
            link.spoke[agent] = False
            if key in speaking:
                link.words[agent] = text
                link.bare = agent if text in BARE else ""
            if human:
                link.turns = 0
        self._deal(agent)
        return crossed

    def read(self, agent: str) -> None:
        """All that came is in its context."""
        self.heard[agent] = [(key, True) for key, _ in self.heard.get(agent, [])]

    def leave(self, key: str, agent: str) -> None:
        """One member less."""
        link = self.links[key]
        link.members.remove(agent)
        self._forget(key, agent)
        if link.direct or len(link.members) < 2:
            self.close(key)

    def close(self, key: str) -> None:
        """Over for all."""
        link = self.links[key]
        link.status = "closed"
        for member in link.members:
            self._forget(key, member)

    def _deal(self, agent: str) -> None:
        self.heard[agent] = [(key, read) for key, read in self.heard.get(agent, []) if not read]

    def _forget(self, key: str, agent: str) -> None:
        self.heard[agent] = [each for each in self.heard.get(agent, []) if each[0] != key]
