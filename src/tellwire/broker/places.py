"""Operations with paths, seen from the folder of whoever asks: rules about paths compare plain text only."""

from __future__ import annotations

from typing import Any

import msgspec

from tellwire.paths import canonical
from tellwire.protocol.operations.asking import AskAgent
from tellwire.protocol.operations.children import SpawnAgent
from tellwire.protocol.operations.scopes import ClaimScope, ReleaseScope, ScopeRule, WhoOwns


def in_place(operation: Any, cwd: str) -> Any:
    """An operation with its paths made plain, seen from a folder; one without paths as it is."""
    replace = msgspec.structs.replace
    if isinstance(operation, ClaimScope):
        return replace(operation, rules=[_rule(rule, cwd) for rule in operation.rules])
    if isinstance(operation, ReleaseScope):
        return replace(operation, paths=[canonical(path, cwd) for path in operation.paths])
    if isinstance(operation, WhoOwns):
        return replace(operation, path=canonical(operation.path, cwd))
    if isinstance(operation, SpawnAgent):
        scope = None if operation.scope is None else [_rule(rule, cwd) for rule in operation.scope]
        return replace(operation, scope=scope, cwd=canonical(operation.cwd or cwd, cwd))
    if isinstance(operation, AskAgent):
        return replace(operation, cwd=canonical(operation.cwd or cwd, cwd))
    return operation


def _rule(rule: ScopeRule | str, cwd: str) -> ScopeRule:
    plain = ScopeRule(rule) if isinstance(rule, str) else rule
    return msgspec.structs.replace(plain, path=canonical(plain.path, cwd))
