"""Clients that are not ours talk to ``palaver mcp``; run by ``make test-mcp``, which needs Node."""
