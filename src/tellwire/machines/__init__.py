"""Connects the engine with federation: what was committed goes out, what comes in is submitted."""
