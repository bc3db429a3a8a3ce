"""Messages: sending, routing, receipts, fetching, framing, and when mail may wake its recipient.

Imports `protocol` and the other subjects of `core`. Only `framing` puts the text of peers before a model.
"""
