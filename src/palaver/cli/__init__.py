"""For people: the `palaver` command."""
