"""Everything that tellwire knows about Claude Code."""
