"""Whatever a peer writes: one frame, the attributes it was given, and nothing hidden (SEC-2)."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tellwire.core.mail.framing import (
    MODES,
    neutralise,
    render_batch,
    render_message,
    render_network,
    render_page,
)
from tellwire.protocol.operations.messages import MessageRecord

pytestmark = pytest.mark.requirement("SEC-2", stage="mcp")

NOW = 1_000_000.0
PIECES = [
    *[
        "<",
        "</",
        "< /",
        "<\\",
        "[",
        "[/",
        "＜",
        "﹤",
        "⟨",
        "≮",
        "［",
        ">",
        "＞",
        "]",
        "/",
        "\\",
        "|",
        "<|",
        "|>",
        ":",
    ],
    *[
        "peer-message",
        "peer",
        "-",
        "‑",
        "_",
        "message",
        "peer-context",
        "ｐｅｅｒ",
        "рееr",
        "PEER-MESSAGE",
        "x",
        "_id",
    ],
    *[
        "system",
        "system-reminder",
        "user",
        "User",
        "List",
        "assistant",
        "antml:",
        "invoke",
        "im_start",
        "INST",
        "SYS",
    ],
    *[
        " id=m1",
        " from=operator",
        ' from="operator"',
        "tellwire",
        "[tellwire:",
        "id=m1",
        "[2026-01-01T",
        " from=x",
    ],
    *[
        "\x00",
        "\x1b",
        "\r",
        "\r\n",
        "\n",
        "\t",
        " ",
        "\x85",
        "\u2028",
        "\xa0",
        "\u3000",
        "\x7f",
        "\xad",
        "\u034f",
    ],
    *["\u200b", "\u200c", "\u200d", "\u200e", "\u202e", "\u2060", "\ufe0f", "\ufeff", "\ud800", "\U000e0041"],
    *[
        "\\u200b",
        "\\x1b",
        "\\n",
        "\\t",
        "\u0301",
        "ﬆ",
        "¦",
        "</peer-message>",
        "@",
        ".",
        ",",
        '"',
        "'",
        "é",
        "中",
    ],
]
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=24).map("".join)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=5,
)
MESSAGES = st.builds(
    MessageRecord,
    id=st.sampled_from(["m1", "m4f2k"]),
    sender=st.sampled_from(["backend", "ann", "a.b-c_d"]),
    to=st.sampled_from(["bob", "broadcast", "#build", "ann,bob"]),
    body=st.one_of(TEXTS, JSON),
    sent_at=st.floats(0, NOW),
    kind=st.sampled_from(["request", "response", "notification"]),
    re=st.one_of(st.none(), st.just("m3"), TEXTS.map(lambda text: text[:64])),
    mode=st.sampled_from([None, *sorted(MODES)]),
    context=st.one_of(st.none(), JSON),
    repeat=st.booleans(),
)
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
    "\ud800-\udfff\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)
# A tag ends at the next opener of any script: `<[peer-message` is text behind a square bracket.
OPENERS = "<[({" + "＜﹤≮≪≺⋖❬❮❰⟨⟪\u2329\u3008《˂ᐸᚲ⦑⦓⧼◁◃⊲⋘⪡⮜◂🞀" + "［﹇【〔❲⟦⦋⁅「『｢〖" + "‹«" + "（｛﹛﹙❴❨⦃⦅"
OUR_TAG = re.compile(rf"<[^\w>¦{re.escape(OPENERS)}]*peer[\s._-]*(?:message|context)", re.IGNORECASE)
CODE = [
    *[
        "List<int>",
        "Map<String, List<T>>",
        "a < b",
        "<T>",
        "<div class='x'>",
        "</div>",
        "x << 2",
        "#include <os.h>",
    ],
    *[
        "if (i<n && n>0) { a[i] = b[0]; }",
        "Promise<User>",
        "<UserCard id={user.id} />",
        "cat <<'EOF' > x",
        "f <| x",
    ],
    *[
        "[tool.ruff]",
        "[[x]]",
        "{{ user }}",
        "${HOME}",
        "`a`",
        "user@host",
        "<user@host>",
        "naïve 中文 👩\u200d💻\n\t",
    ],
]


class Frame(NamedTuple):
    """One message as the strict parser reads it."""

    attributes: dict[str, str]
    body: str
    context: str | None


def parse(text: str) -> list[Frame]:
    """Read frames the strict way: every tag of ours counts, wherever it stands, and nothing is left over."""
    frames: list[Frame] = []
    for block in re.split(r"(?<=</peer-message>)\n", text):
        found = re.fullmatch(r"<peer-message((?: [^>\n]*)?)>\n(.*)\n</peer-message>", block, re.DOTALL)
        assert found is not None, block
        inner = found[2]
        context = re.search(r"\n<peer-context>(.*)</peer-context>$", inner, re.DOTALL)
        if context is not None:
            inner = inner[: context.start()]
        attributes = parse_attributes(found[1])
        if "mode" in attributes:
            line, _, inner = inner.partition("\n")
            assert line == f"({MODES[attributes['mode']].framing})"
        for part in (inner, context[1] if context else ""):
            assert not OUR_TAG.search(part), "a tag of ours within peer text"
        frames.append(Frame(attributes, inner, context[1] if context else None))
    return frames


def parse_attributes(text: str) -> dict[str, str]:
    pairs = re.compile(r' ([a-z]+)=(?:"([^"<>\n]*)"|([^\s"<>=]+))')
    assert re.fullmatch(f"(?:{pairs.pattern})*", text), text
    names = [found[1] for found in pairs.finditer(text)]
    assert len(names) == len(set(names))
    return {found[1]: unescaped(found[2] or "") or found[3] for found in pairs.finditer(text)}


def unescaped(text: str) -> str:
    return re.sub(
        r"\\(?:x(..)|u(.{4})|U(.{8}))", lambda found: chr(int(found[1] or found[2] or found[3], 16)), text
    )


def expected(message: MessageRecord) -> dict[str, str]:
    age = NOW - message.sent_at
    units = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)]
    unit, length = next((pair for pair in units if age >= pair[1]), ("s", 1))
    told: dict[str, str | None] = {
        "id": message.id,
        "from": message.sender,
        "to": None if message.to == "bob" else message.to,
        "age": f"{int(age) // length}{unit}" if age >= 60 else None,
        "re": message.re,
        "kind": None if message.kind == ("response" if message.re else "request") else message.kind,
        "mode": message.mode,
        "repeat": "maybe" if message.repeat else None,
    }
    return {name: value for name, value in told.items() if value}


def body_of(page: str) -> str:
    return page.split("\n", 1)[1].removesuffix("\n</peer-message>")


@given(TEXTS)
@example("<system\x00foo>")
@example("<|a<user|>")
@example("x\u200b<User>")
def test_neutralising_twice_is_neutralising_once(text: str) -> None:
    once = neutralise(text)
    assert neutralise(once) == once


@given(st.one_of(TEXTS, st.text()))
def test_nothing_hidden_survives(text: str) -> None:
    assert not FORBIDDEN.search(neutralise(text))


@given(st.lists(MESSAGES, min_size=1, max_size=3))
def test_a_batch_reads_back_as_the_messages_it_was_made_of(messages: list[MessageRecord]) -> None:
    text = render_batch([render_message(message, now=NOW) for message in messages])
    header, _, rest = text.partition("\n")
    frames = parse(rest)
    assert [frame.attributes for frame in frames] == [expected(message) for message in messages]
    for frame, message in zip(frames, messages, strict=True):
        assert (frame.context is None) == (message.context is None)
        if isinstance(message.body, str):
            assert frame.body == neutralise(message.body)
    assert not FORBIDDEN.search(text)
    assert header.startswith("[tellwire: ")
    assert not re.search(r"\[[\s/\\]*tellwire\s*:", rest, re.IGNORECASE)


@example("<［peer-context", 0, 1)
@given(st.one_of(TEXTS, JSON), st.integers(0, 300), st.integers(1, 300))
def test_any_page_is_one_safe_frame(body: Any, offset: int, chars: int) -> None:
    message = MessageRecord(id="m1", sender="ann", to="bob", body=body, sent_at=NOW)
    page, following, total = render_page(message, now=NOW, offset=offset, chars=chars)
    (frame,) = parse(page)
    whole = parse(render_message(message, now=NOW))[0].body
    start, end = min(offset, total), following or total
    assert frame.attributes["part"] == f"{start}-{end}/{total}"
    assert (len(whole), len(frame.body)) == (total, end - start)
    assert end - start <= chars or start == total
    assert neutralise(frame.body) == frame.body
    assert all(shown in (sign, "¦") for shown, sign in zip(frame.body, whole[start:end], strict=True))


@given(st.lists(TEXTS, min_size=1, max_size=12).map("".join), st.integers(100, 200))
def test_the_pages_together_are_the_whole_text(body: str, chars: int) -> None:
    message = MessageRecord(id="m1", sender="ann", to="bob", body=body, sent_at=NOW)
    parts, offset = "", 0
    while True:
        page, offset, total = render_page(message, now=NOW, offset=offset, chars=chars)
        parts += body_of(page)
        if offset == 0:
            break
    assert len(parts) == total
    assert parts == neutralise(body)


@given(st.lists(st.sampled_from(CODE), max_size=20), st.sampled_from([" ", "\n", "; "]))
def test_ordinary_code_stays_verbatim(samples: list[str], between: str) -> None:
    text = between.join(samples)
    assert neutralise(text) == text
    message = MessageRecord(id="m1", sender="ann", to="bob", body=text, sent_at=NOW)
    assert body_of(render_message(message, now=NOW)) == text


@given(st.lists(MESSAGES, min_size=1, max_size=3))
def test_only_first_lines_of_the_network_dialect_stand_at_the_margin(messages: list[MessageRecord]) -> None:
    lines = render_network(messages).split("\n")[1:]
    heads = [place for place, line in enumerate(lines) if not line.startswith(" ")]
    assert len(heads) == len(messages)
    for place, message in zip(heads, messages, strict=True):
        assert re.fullmatch(
            rf"\[[\dTZ:-]{{20}}\] from={message.sender} re=(?:\S+|\"[^\"]*\")( repeat=maybe)?", lines[place]
        )
        assert lines[place + 1] == f" id={message.id}"
    assert sum(bool(re.fullmatch(r" id=\S*", line)) for line in lines) == len(messages)
    assert not FORBIDDEN.search("".join(lines))
