"""The way in for programs: a connection that finds, starts and survives the broker."""
