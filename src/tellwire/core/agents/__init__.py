"""Agents: who is registered, under which name, who sees whom, who is whose peer.

Imports `protocol`, `core.state` and the modules at the top of `core`.
"""
