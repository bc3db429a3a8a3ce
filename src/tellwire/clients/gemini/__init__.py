"""Everything that tellwire knows about Gemini CLI; imports what `clients` may, and no other client."""
