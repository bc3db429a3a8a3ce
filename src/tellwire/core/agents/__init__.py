"""Agents: who is registered, under which name, who sees whom, who is whose peer.

Imports `protocol`, `core.state` and what stands beside the folders of `core`.
"""
