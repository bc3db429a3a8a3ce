"""Where it is kept: the SQLite journal and its in-memory twin."""
