"""The running one: single writer, delivery, presence, and the door on the Unix socket."""
