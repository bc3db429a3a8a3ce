"""JSON as `json` reads and writes it, by the same C functions, without loading it.

`json` imports `re`, which costs more than all else that a fast command does. Where the C functions are not as
we know them, and for what is wrong with a text, `json` itself is asked.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing it from typing would cost the fast commands four milliseconds
if TYPE_CHECKING:
    from typing import Any

BLANKS = " \t\n\r"
CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class Context:
    """What the scanner asks its decoder."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = CONSTANTS.__getitem__
    memo: dict[str, str] = {}


try:
    import _json

    _scan: Any = _json.make_scanner(Context())  # pyright: ignore[reportArgumentType]  # it takes any such object
    _make_encoder: Any = _json.make_encoder
    _quote: Any = _json.encode_basestring
except (ImportError, AttributeError, TypeError):
    _scan = _make_encoder = _quote = None


def loads(text: str | bytes) -> Any:
    """What a document means.

    Raises:
        ValueError: it is none.
    """
    try:
        whole = text.decode("utf-8") if isinstance(text, bytes) else text
        first = len(whole) - len(whole.lstrip(BLANKS))
        value, end = _scan(whole, first)
        if not whole[end:].strip(BLANKS):
            return value
    except (StopIteration, TypeError, ValueError):
        pass  # `json` says what is wrong, or knows more
    return _json_module().loads(text)


def dumps(value: object, *, compact: bool = False) -> str:
    """A document on one line; `ensure_ascii` is off.

    Raises:
        TypeError: there is something in it that JSON does not know.
        ValueError: it contains itself.
    """
    item, key = (",", ":") if compact else (", ", ": ")
    try:
        encode = _make_encoder({}, _refuse, _quote, None, key, item, False, False, True)
        return "".join(encode(value, 0))
    except TypeError:
        return _json_module().dumps(value, ensure_ascii=False, separators=(item, key))


def dumps_indented(value: object) -> str:
    """A document on several lines, for people."""
    return _json_module().dumps(value, ensure_ascii=False, indent=2)


def _refuse(value: object) -> object:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _json_module() -> Any:
    import json  # noqa: PLC0415 - the cost that this module is there to save

    return json
