"""Doors for callers who do not speak our own protocol. A gateway translates and decides nothing."""
