"""The rows of the table: one file for each group that is measured together."""
