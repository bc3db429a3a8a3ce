"""Becomes a child's program once the broker has it on record: `python -I -S child.py FOLDER`.

FOLDER holds `launch.json` (`argv`, `env`, `cwd`). The process waits for the file `go` there, which means
that its start is committed, and then becomes the program, under the same process id. If the broker dies
before that, the wait ends by itself and nothing is left behind.
"""

from __future__ import annotations

import os
import sys
import time

WAIT_S = 15.0
LOOK_S = 0.02
EXIT_GIVEN_UP = 75
EXIT_NOT_FOUND = 127


def main(folder: str) -> int:
    """Wait until it is released, then run the program; returns only if that fails."""
    import json  # noqa: PLC0415 - what is not needed while waiting is not loaded before

    deadline = time.monotonic() + WAIT_S
    while not os.path.exists(os.path.join(folder, "go")):
        if time.monotonic() > deadline or not os.path.exists(folder):
            _drop(folder)
            return EXIT_GIVEN_UP
        time.sleep(LOOK_S)
    with open(os.path.join(folder, "launch.json"), encoding="utf-8") as file:
        launch = json.load(file)
    _drop(folder)
    try:
        os.chdir(launch["cwd"])
        os.execvpe(launch["argv"][0], launch["argv"], launch["env"])
    except OSError as error:
        sys.stderr.write(f"{launch['argv'][0]}: {error.strerror}\n")
    return EXIT_NOT_FOUND


def _drop(folder: str) -> None:
    """What is to be started may hold a key that the program needs: it is not left lying about."""
    try:  # noqa: SIM105 - what is not needed while waiting is not loaded
        os.unlink(os.path.join(folder, "launch.json"))
    except OSError:
        pass  # the folder is gone, and with it the file


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
