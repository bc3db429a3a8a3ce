"""What people see, as words: pure functions from replies and events to lines. No clock, no I/O, no markup."""
