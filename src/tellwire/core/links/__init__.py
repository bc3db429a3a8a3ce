"""Links and listeners: conversations over many turns, and who is notified when a turn ends.

Imports `protocol` and the other subjects of `core`.
"""
