"""What is said: addresses, operations, events, errors and frames. Pure data, no I/O, no clock."""
