"""What an MCP client starts, by path, with `python -I -S`: the shim. Its work is in `tellwire.relay.shim`.

A program started by its path is compiled each time; a module is compiled once. This path is in the
configurations of clients and stays as it is.
"""

import os
import sys

if __name__ == "__main__":
    package = sys.modules["tellwire"] = type(sys)("tellwire")  # without its `__init__`, which costs a moment
    package.__path__ = [os.path.dirname(os.path.dirname(os.path.realpath(__file__)))]
    from tellwire.relay.shim import main

    os._exit(main())
