"""For people: the `tellwire` command."""
