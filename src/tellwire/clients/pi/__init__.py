"""Everything that tellwire knows about Pi."""
