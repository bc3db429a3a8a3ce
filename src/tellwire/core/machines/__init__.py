"""Other machines: who is paired, their agents, what is to be said to them, and what they say."""
