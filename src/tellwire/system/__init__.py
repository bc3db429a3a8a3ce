"""The machine under us; it knows nothing of messages.

Processes (`proc` is the one reader of `/proc`), terminals, tmux, atomic files, threads, background tasks and
bounded maps.
"""
