"""The commands, one file for each noun: words in, one call to the broker, a table or JSON out.

Imports what `cli` may. `app` is the only importer, so that no other command pays for loading these.
"""
