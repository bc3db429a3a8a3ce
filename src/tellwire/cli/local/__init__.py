"""What commands find out on this machine by themselves: the broker's process, clients, what is installed.

Imports `render` and `speaking` of `cli` and everything beneath; never `commands`.
"""
