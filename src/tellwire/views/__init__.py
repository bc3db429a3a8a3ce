"""What people see, as text: pure functions from replies and events to lines. No clock, no I/O, no markup.

Imports `protocol`, and of `system` only `bounded`.
"""
