"""The wire formats of model vendors: how a request is read and an answer is written, one module for each.

Every module has `read` (tools and context of a request), `whole` (an answer in one piece) and `stream` (the
same as server-sent events).
"""
