"""The past: audit, history, search terms, final receipts, and how much space it may take up.

Imports `protocol` and the other subjects of `core`; reads the store only through the context of a decision.
"""
