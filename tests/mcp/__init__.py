"""Clients that are not ours talk to ``tellwire mcp``; run by ``make test-mcp``, which needs Node."""
