"""How far a message got, as an application sees it."""

from __future__ import annotations

from collections.abc import Sequence

from tellwire.protocol.operations.messages import RecipientStatus


class Status(dict[str, str]):
    """State by recipient; `recipients` adds evidence and time."""

    def __init__(self, message_id: str, recipients: Sequence[RecipientStatus]) -> None:
        super().__init__({recipient.name: recipient.state for recipient in recipients})
        self.id = message_id
        self.recipients = tuple(recipients)
