"""Messages: sending, routing, receipts, fetching, framing, and when mail may wake its recipient."""
