"""Writing tellwire into a client's own configuration, and taking exactly that out again.

Owns the text edits, the record of what was written, and what each client needs. Asks and shows nothing.
"""
