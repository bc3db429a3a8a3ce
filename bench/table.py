"""The report as text: Markdown tables, padded so that they read well in a terminal too."""

from collections.abc import Mapping, Sequence

from bench.report import Detail, Ratio, Section, Target

LIMITS = """\
What these figures do not show
- Stacks, not engines: all clients of an engine live in one Python process with uvloop, and there the client
  library dominates (column "client cpu"). redis-server driven from C is far faster than anything here.
- "redis always" is redis-py as it comes, one object for each agent; "tuned" has a fixed connection for each
  command and no socket timeout. The targets were set against the former.
- Durable means what this disk's sync means (figure above): a virtual disk may answer from a cache of its
  host, and a slow one would favour whoever joins more messages in one commit. Power loss was not tested.
- redis everysec loses up to a second of acknowledged messages in a crash; tellwire, naive and always do not.
- echo is one round trip of the bytes, nothing parsed or stored; the others need two and more per message.
- naive commits twice for each message (send and confirmation), as the cycle demands of everyone.
- hcom has no server and no confirmation; its figures are whole processes, start-up included.
- "SDK in process" is the official SDK's server as the agent's own child, favoured: it stores into a file of
  its own, opens it at the first call, and knows no other agent, no receipt and no broker. Real ones do more.
- The shim's start needs a broker that runs. The first shim of a broker gets its handshake answered before the
  SDK is loaded (row "first of its broker"); its first tool call waits for that, some 0.5 s.
- The shim is small because the broker holds the SDK, once: see "agents and broker, RSS together". RSS counts
  shared pages in full for each process; PSS divides them among all who run the same interpreter just then.
- An MCP call of tellwire passes two processes more than the SDK's, and its send is journaled, routed and put
  into an inbox; the client is a bare pipe, so a real client adds its own time to both.
- Pings come back to back, which nobody does; both processors are busy with them while the shim comes. The
  longest of some thousand round trips is the scheduler's as often as the broker's: compare "nobody comes".
- "tool call": real clients with a scripted model that answers at once; from its answer to the next request.
  All variants of a client run at once and are led call by call, by turns. "tellwire − …" is the median
  of differences between calls side by side, not of medians. Codex's call runs a command, the others' reads.
- "hook process": from spawn to end, without the shell that a client puts before it. hcom's hook writes into
  its database itself; ours asks the broker, which commits the hand-over and keeps a receipt.
- "sent → in the model's context": in a turn it holds one send and one tool call, for no client takes mail in
  between; min–max over the messages. Idle: Codex is on its daemon, as it is without special options, and
  Gemini CLI is woken by a line that is typed into its tmux.
- "beside hcom": one session of each in a terminal, both idle or both asked by turns, so all share the noise.
  hcom starts its clients itself and types for Codex, whose daemon it does not use. The idle clock has the
  whole process of the command that sends in it; mid-turn begins when the tool's last act was written down.
- Closed loop, one send in flight for each client: latency under a light, paced load is lower.
- Few cores shared with others: differences under 20 % are noise, see min–max, and where "others" (the rest of
  the machine, in percent of one processor) is not small, all is. CPU per message is steadier than msg/s."""


def render(machine: Mapping[str, str], sections: Mapping[str, Section]) -> str:
    """The whole report."""
    ratios = [ratio for section in sections.values() for ratio in section.ratios]
    details = [detail for section in sections.values() for detail in section.details]
    load = [detail for detail in details if "per_s" in detail.figures or detail.unit == "msg/s"]
    others = [detail for detail in details if detail not in load]
    parts = ["\n".join(f"{key}: {value}" for key, value in machine.items()), _ratio_table(ratios)]
    if load:
        parts.append(_load_table(load))
    if others:
        parts.append(_detail_table(others))
    parts.append(LIMITS)
    return "\n\n".join(parts)


def _ratio_table(ratios: Sequence[Ratio]) -> str:
    head = ("row", "unit", "of", "figure", "against", "figure", "ratio", "target", "verdict")
    rows = [
        (
            ratio.row,
            ratio.unit,
            ratio.subject,
            _number(ratio.figure),
            ratio.against,
            _number(ratio.peer_figure),
            "" if ratio.ratio is None else f"{ratio.ratio:.2f}",
            _target(ratio.target, ratio.unit),
            ratio.verdict or ratio.note,
        )
        for ratio in ratios
    ]
    return _table(head, rows)


def _load_table(details: Sequence[Detail]) -> str:
    head = (
        "row",
        "engine",
        "msg/s (min–max)",
        "ack p50 us",
        "ack p99 us",
        "send→receive p50 us",
        "server cpu us/msg",
        "client cpu us/msg",
        "others % cpu",
    )
    keys = ("ack_p50_us", "ack_p99_us", "receive_p50_us", "server_cpu_us", "client_cpu_us", "others_percent")
    rows = [
        (
            detail.row,
            detail.contender,
            _spread(detail, "per_s"),
            *(_number(detail.figures.get(key)) for key in keys),
        )
        for detail in details
    ]
    return _table(head, rows)


def _detail_table(details: Sequence[Detail]) -> str:
    rows = [
        (detail.row, detail.contender, _spread(detail, "value"), detail.unit if detail.figures else "")
        for detail in details
    ]
    return _table(("row", "contender", "median (min–max)", "unit"), rows)


def _spread(detail: Detail, key: str) -> str:
    if detail.missing or detail.spread is None:
        return detail.missing
    low, high = detail.spread
    return f"{_number(detail.figures[key])} ({_number(low)}–{_number(high)})"


def _target(target: Target | None, unit: str) -> str:
    if target is None:
        return ""
    return f"{target.bound} {target.number:g}{'×' if target.of == 'ratio' else ' ' + unit}"


def _number(value: float | None) -> str:
    if value is None:
        return "—"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in (head, *rows)) for column in range(len(head))]
    lines = [_line(head, widths), "|" + "|".join("-" * (width + 2) for width in widths) + "|"]
    return "\n".join([*lines, *(_line(row, widths) for row in rows)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
