"""The digest by which a repeated request and a stored body are recognised."""

from __future__ import annotations

from hashlib import sha256


def digest_of(to: str, body: str) -> str:
    """128 bits of SHA-256 over the address line and the body, in hex."""
    return sha256(f"{to}\n{body}".encode()).hexdigest()[:32]
