"""Where programs of a session connect: hook and waiter sockets, HTTP hooks, plugins that poll.

Imports what `sessions` may; the only home of `h11`.
"""
