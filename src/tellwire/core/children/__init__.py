"""Children and scopes: agents that agents start, and who may write where."""
