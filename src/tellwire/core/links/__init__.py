"""Links and listeners: conversations over many turns, and who hears how a turn ended."""
