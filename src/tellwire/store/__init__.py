"""Where everything is stored: the SQLite journal, and its in-memory twin for tests.

Imports `core`, `protocol` and `system`, never `broker`; the only home of `sqlite3`.
"""
