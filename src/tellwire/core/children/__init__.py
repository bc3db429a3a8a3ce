"""Children and scopes: agents that agents start, and who may write where.

Imports `protocol` and the other subjects of `core`; their events are applied in `lifecycle` and `scopes`.
"""
