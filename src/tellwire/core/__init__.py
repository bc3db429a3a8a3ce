"""The rules of the mesh, as pure functions: no I/O, no clock, no randomness.

`kernel` is the table of all commands and events, `state` what they work on. Imports `protocol`, and of
`system` only `bounded`, which is pure.
"""
