"""Everything that tellwire knows about Gemini CLI."""
