"""Everything that tellwire knows about Codex."""
