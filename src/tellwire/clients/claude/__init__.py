"""Claude Code: all that tellwire knows of it."""
