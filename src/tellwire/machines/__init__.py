"""Other machines in the running broker: the engine on one side, federation on the other."""
