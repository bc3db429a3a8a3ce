"""Commands about tellwire itself and this machine: help, versions, settings, the log, checks, services.

They talk to the broker about itself at most, never as an agent.
"""
