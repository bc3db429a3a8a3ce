"""Where programs of a session connect: hook and waiter sockets, HTTP hooks, plugins that poll."""
