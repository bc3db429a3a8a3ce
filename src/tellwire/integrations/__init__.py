"""What we know of each agent CLI: its hooks, its limits, its transcript. Nothing here decides or delivers."""
