"""Gemini CLI: all that tellwire knows of it."""
