"""The command `tellwire`: `python -m tellwire`, or quicker by path, `python -I -S …/tellwire/__main__.py`.

By path it starts without site packages and without the package's `__init__`: the fast commands need neither.
It is compiled at each start, so all that can be elsewhere is (`cli/main`).
"""

import sys

if __name__ == "__main__":
    if not __package__:
        package = sys.modules["tellwire"] = type(sys)("tellwire")
        package.__path__ = [__file__.rpartition("/")[0]]
    from tellwire.cli.main import main

    main()
