"""The SDK: what a Python program uses to be an agent.

It finds, starts and survives the broker, and never imports it: only `settings`, `protocol`, `system` and
`paths`. `tellwire` itself offers the public names; the command line is built on this package.
"""
