"""The MCP door: shims, their sessions, and the server of the official SDK that runs on their lines.

Imports `clients`, `broker`, `core`, `protocol`, `relay` and `system`; never `sessions` or `children`.
"""
