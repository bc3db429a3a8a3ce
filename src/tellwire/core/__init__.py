"""What it means: the rules, pure. No I/O, no clock, no randomness."""
