"""The documentation of an operation's fields: the string below each of them in its class.

Python does not keep these strings, so they are read from the source, once for each class.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise


def summary(kind: type) -> str:
    """The first sentence or line of a class's docstring."""
    text = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    return " ".join(text.split())


@cache
def field_docs(kind: type) -> dict[str, str]:
    """By field, its documentation on one line; fields without any are left out."""
    body = _body(kind)
    docs: dict[str, str] = {}
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = below.value if isinstance(below, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                docs[field.target.id] = " ".join(text.value.split())
    return docs


def field_types(kind: type) -> dict[str, str]:
    """By field, its type as it is written in the class."""
    return {
        field.target.id: ast.unparse(field.annotation)
        for field in _body(kind)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


def _body(kind: type) -> list[ast.stmt]:
    return next(
        (
            each.body
            for each in _module(kind.__module__)
            if isinstance(each, ast.ClassDef) and each.name == kind.__name__
        ),
        list[ast.stmt](),
    )


@cache
def _module(name: str) -> list[ast.stmt]:
    try:
        return ast.parse(inspect.getsource(sys.modules[name])).body
    except OSError:  # installed without its source
        return []
