"""The client library: a connection that finds, starts and survives the broker."""
