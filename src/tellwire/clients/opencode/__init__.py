"""Everything that tellwire knows about OpenCode; imports what `clients` may, and no other client."""
