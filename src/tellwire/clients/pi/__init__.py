"""Pi: all that tellwire knows of it."""
