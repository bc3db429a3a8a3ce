"""The running broker: the one writer, what connects to it, and what it does by the clock.

Imports `core`, `protocol`, `system` and `paths`. The journal comes in through `ports`; neither `store` nor a
door (`sessions`, `mcp`, `children`) is ever imported.
"""
