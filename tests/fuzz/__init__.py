"""Fuzzing of the doors: `make fuzz MINUTES=10`. `cases` makes input, `doors` tries it on a real broker."""
