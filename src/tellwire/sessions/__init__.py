"""A client's session while it runs: hooks, turns, evidence, waking, paths and the write guard.

Imports `clients`, `install`, `broker`, `core`, `protocol`, `relay` and `system`; never `mcp` or `children`.
"""
