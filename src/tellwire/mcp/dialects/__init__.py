"""Sets of tool names for the same operations: their tables, their words and their answers."""
