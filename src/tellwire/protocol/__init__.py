"""The wire and the journal: addresses, operations, events, errors and frames. Pure data, no I/O, no clock.

Imports nothing else of tellwire.
"""
