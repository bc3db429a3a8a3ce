"""The operator, the person who runs all this: always there, asked by agents, and answering them.

Imports `protocol`, `core.state`, and from `core.agents` and `core.mail` what an answer is sent with.
"""
