"""Programs that run inside an agent's session, started by path with `python -I -S`.

Imports the standard library and `paths` only: a hook pays for every import.
"""
