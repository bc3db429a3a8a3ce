"""`python -m tellwire`: the same as the command `tellwire`."""

from tellwire.cli.main import main

main()
