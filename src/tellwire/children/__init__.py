"""The processes of children: started, watched and ended as the state says.

Imports `clients`, `broker`, `core`, `protocol` and `system`; never `mcp` or `sessions`.
"""
