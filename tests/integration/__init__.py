"""The real thing: processes, sockets, disks, signals."""
