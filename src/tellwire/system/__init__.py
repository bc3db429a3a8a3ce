"""The operating system; it knows nothing of messages.

Processes (`proc` is the one reader of `/proc`), terminals, tmux, atomic files, threads, background tasks and
bounded maps. Imports only `paths`; the only home of `libtmux`.
"""
