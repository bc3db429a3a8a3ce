"""How much a console holds; the rest is asked for by page."""

from __future__ import annotations

MESSAGES_MAX = 5_000
CONVERSATIONS_MAX = 200
TIMELINE_MAX = 10_000
NEEDS_MAX = 200
FAULTS_MAX = 200
FAULT_IDS_MAX = 20
"""Messages that one fault names."""
