"""Writing tellwire into a client's own configuration, and taking exactly that out again.

Owns the text edits and the record of what was written. Prompts for nothing and prints nothing. Imports
`clients`, `protocol`, `system` and `paths`.
"""
