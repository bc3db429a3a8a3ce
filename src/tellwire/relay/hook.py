"""What a client starts as its hook, by path: `python -I -S hook.py CLIENT [--home=DIR]`.

Its work is in `tellwire.relay.carrier`: a program started by its path is compiled each time, a module once.
This path is in the configurations of clients and stays as it is.
"""

import os
import sys

if __name__ == "__main__":
    try:
        relay = os.path.dirname(os.path.abspath(__file__))
        # The package without its `__init__`, which a hook would pay for at every call.
        package = sys.modules["tellwire"] = type(sys)("tellwire")
        package.__path__ = [os.path.dirname(relay)]
        from tellwire.relay.carrier import main

        main()
    finally:
        os._exit(0)
