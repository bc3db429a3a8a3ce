"""Agents: who is registered, under which name, who sees whom, who is whose peer.

Imports `protocol` and the other subjects of `core`.
"""
