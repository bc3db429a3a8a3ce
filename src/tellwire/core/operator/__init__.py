"""The operator, the person who runs all this: always registered, asked by agents, and answering them.

Imports `protocol` and the other subjects of `core`.
"""
