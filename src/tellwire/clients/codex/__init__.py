"""Codex: all that tellwire knows of it."""
