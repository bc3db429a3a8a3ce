"""Everything that tellwire knows about Codex; imports what `clients` may, and no other client."""
