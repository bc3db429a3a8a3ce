"""The past: audit, history, search terms, final receipts, and the room it may take up."""
