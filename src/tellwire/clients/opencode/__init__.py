"""Everything that tellwire knows about OpenCode."""
