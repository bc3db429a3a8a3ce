"""The console script. It imports next to nothing: the fast commands pay for every line above them.

What the usual forms of the everyday commands need is in `fast`, the rest in `app`, with click.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing it from typing would cost the fast commands four milliseconds
if TYPE_CHECKING:
    from types import TracebackType

FAST = ("send", "inbox", "list", "status", "glance")
FOR_PLUGINS = ("hook", "waiter")
"""`tellwire hook KIND`: what a plugin from a market starts. Not for people, and not in the help."""
EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    sys.excepthook = tell_bug
    argv = sys.argv[1:]
    if argv and argv[0] in FAST and "_TELLWIRE_COMPLETE" not in os.environ:
        # Imported here for start-up speed: the other commands do not need it.
        from tellwire.cli.fast import run  # noqa: PLC0415
        from tellwire.cli.screen import UnwrittenError, tell_unwritten  # noqa: PLC0415

        try:
            code = run(argv)
        except UnwrittenError as error:
            code = tell_unwritten(error)
        except KeyboardInterrupt:
            code = EXIT_INTERRUPTED
        if code is not None:
            os._exit(code)  # all is written; taking the interpreter down takes longer than the call
    if len(argv) == 2 and argv[0] in FOR_PLUGINS:
        relay = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "relay")
        os.execv(sys.executable, [sys.executable, "-I", "-S", os.path.join(relay, f"{argv[0]}.py"), argv[1]])
    if argv == ["machine", "wire"]:  # this one and `accept --stdio` are run by other machines, over ssh
        from tellwire.relay.wire import main as wire  # noqa: PLC0415 - as above: it passes bytes, and stays

        os._exit(wire())
    if sys.flags.no_site:
        load_site()
    if argv == ["machine", "accept", "--stdio"]:
        from tellwire.cli.commands.machines import accept  # noqa: PLC0415 - as above

        sys.exit(accept())
    from tellwire.cli.app import cli  # noqa: PLC0415 - as above

    code = cli.run(argv)
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # nobody reads; do not try again at the end
    sys.exit(code)


def load_site() -> None:
    """Started by path, without site packages: have them now, and the package with its `__init__`."""
    import site  # noqa: PLC0415 - the fast commands do without
    from importlib.util import spec_from_file_location  # noqa: PLC0415

    package = sys.modules["tellwire"]
    (folder,) = package.__path__
    site.main()
    if os.path.dirname(folder) not in sys.path:  # in a person's own site packages, or below another prefix
        site.addsitedir(os.path.dirname(folder))
    spec = spec_from_file_location("tellwire", f"{folder}/__init__.py", submodule_search_locations=[folder])
    assert spec is not None
    assert spec.loader is not None
    package.__spec__, package.__file__ = spec, spec.origin
    spec.loader.exec_module(package)


def tell_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an unexpected exception; its text may contain anything."""
    # Imported here for start-up speed: hardly ever needed.
    from traceback import format_exception  # noqa: PLC0415

    from tellwire.cli.screen import ERR, write  # noqa: PLC0415

    write("".join(format_exception(kind, error, trace)), ERR)
