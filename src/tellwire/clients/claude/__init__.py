"""Everything that tellwire knows about Claude Code; imports what `clients` may, and no other client."""
