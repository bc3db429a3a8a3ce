"""The machine under us: processes, terminals, tmux, threads. It knows nothing of messages."""
