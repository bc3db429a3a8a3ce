"""The formats of configuration files: reading a text, and editing it without touching the rest of it.

Owns the parsers that keep comments and style. Standard library only: the launcher packs them (`removal`).
"""
