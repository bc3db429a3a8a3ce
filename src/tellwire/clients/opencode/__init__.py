"""OpenCode: all that tellwire knows of it."""
