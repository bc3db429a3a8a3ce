"""What a child may inherit: what every program needs, and the keys of its own client only.

No token of another agent, and no other client's key. A key of a name that only the client's own settings tell
is its own as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from tellwire.clients import BY_KIND
from tellwire.clients.client import EnvRules

PLAIN = frozenset(
    {
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "NODE_EXTRA_CA_CERTS",
        "PATH",
        "SHELL",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TMPDIR",
        "TZ",
        "USER",
        *(
            name
            for word in ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
            for name in (word, word.upper())
        ),
    }
)
NONE = EnvRules(keys=())
"""Of a program that is no client."""


def environment_of(client: str, parent: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """What a child inherits of its parent, and what is its own."""
    rules = BY_KIND[client].environment if client in BY_KIND else NONE
    keys, named = rules.keys, rules.named_keys(parent)
    kept = {
        name: value
        for name, value in parent.items()
        if _is_plain(name) or name in named or (keys and name.startswith(keys))
    }
    return {**kept, "TERM": "xterm-256color", **rules.own, **own}


def plain_of(env: Mapping[str, str]) -> dict[str, str]:
    """What every program may have: neither a key nor who a child is."""
    return {name: value for name, value in env.items() if _is_plain(name) or name == "TERM"}


def _is_plain(name: str) -> bool:
    return name in PLAIN or name.startswith("XDG_")
