"""Everything that tellwire knows about Pi; imports what `clients` may, and no other client."""
