"""Where programs beside a session connect: hook and waiter sockets, HTTP hooks, plugins that poll."""
