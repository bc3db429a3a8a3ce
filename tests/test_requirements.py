"""The repository keeps its own rules: promises covered, budgets held, nothing of one machine in it."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tellwire.version import VERSION
from tests.requirements import BUILT, PROMISES, REQUIREMENTS, STAGES, UNDER_WAY

ROOT = Path(__file__).parent.parent

FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 49
FOLDER_MODULES_MAX = 18
# What may be longer, each with its reason: "src/tellwire/a.py" or "src/tellwire/a.py::function".
LONGER: dict[str, str] = {}

METHODS_MAX = 25
ATTRIBUTES_MAX = 15
# Classes that are larger, each with its reason; "src/tellwire/" is left off.
A_PORT = "one method for each question that the engine asks a journal, most of them one line"
LARGER: dict[str, str] = {
    "store/memory_journal.py::MemoryJournal": A_PORT,
    "store/sqlite_journal.py::SqliteJournal": A_PORT,
}

FRAGMENT_LINES = 60
# Shorter modules with one importer, each with its reason: otherwise they belong into that importer.
FRAGMENTS: dict[str, str] = {
    "clients/codex/sandbox.py": "what Codex's sandbox is told, a subject of its own among the client's files",
    "clients/pi/install.py": "each client's folder has the same files",
}

ON_THE_MAP_AS_A_WHOLE = {"operations", "events", "clients"}
"""Folders whose modules are all of one kind, which the map names."""

# What waits, and what may wait for a fixed time, each with its reason.
WAITS = {"sleep", "timeout", "wait", "wait_for", "call_later", "in_thread"}
FIXED = {
    "CONNECT_S": "whether another broker listens: a local connection, and a start waits for it",
    "0.02": "between two looks whether a process has ended, in a thread",
}

# Written so that no pattern matches its own line.
FORBIDDEN = {
    "a registry host": re.compile(
        r"pypi\.org|pythonhosted\.org|registry\.npmjs\.org|npmjs\.com|crates\.io|ghcr\.io|docker\.io|deb\.debian\.org"
    ),
    "an index option": re.compile(r"--(?:extra-)?index[-]url|--find[-]links|--trusted[-]host"),
    "a path of one machine": re.compile(r"(?<![\w.}$-])/(?:work|root)/"),
}
CACHES = {".pytest_cache", ".hypothesis", ".ruff_cache", ".import_linter_cache", "__pycache__"}
NOT_OURS = {".git", ".venv", ".node", ".clients", ".debs", ".wheels", "build", "dist", *CACHES}

Row = tuple[str, str]


class Mark(msgspec.Struct, frozen=True):
    """One requirement marker of one collected test, as tests/conftest.py writes it."""

    test: str
    ids: tuple[str, ...]
    stage: str | None
    always_runs: bool

    def rows(self) -> list[Row]:
        """The rows named; without a stage, the first one of each id."""
        first = {promise.id: promise.stages[0] for promise in PROMISES}
        return [(name, self.stage or first.get(name, "unknown")) for name in self.ids]


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> list[Mark]:
    """The markers of the whole suite, whatever part of it runs now."""
    target = tmp_path_factory.mktemp("requirements") / "marks.json"
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"--requirements-to={target}", "tests"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, f"the suite cannot be collected:\n{done.stdout}{done.stderr}"
    return msgspec.json.decode(target.read_bytes(), type=list[Mark])


def test_the_manifest_is_well_formed() -> None:
    ids = [promise.id for promise in PROMISES]
    assert len(ids) == len(set(ids))
    assert {*BUILT, *UNDER_WAY} <= set(STAGES)
    for promise in PROMISES:
        assert promise.stages, promise
        assert promise.text, promise
        assert list(promise.stages) == [stage for stage in STAGES if stage in promise.stages], promise


def test_every_built_requirement_has_a_test(marks: list[Mark]) -> None:
    named = {row for mark in marks if mark.always_runs for row in mark.rows()}
    missing = [row[:2] for row in REQUIREMENTS if row.stage in BUILT and row[:2] not in named]
    assert not missing, f"no test that always runs names {missing}"


def test_every_marker_names_a_requirement_of_a_stage_that_was_begun(marks: list[Mark]) -> None:
    begun = {row[:2] for row in REQUIREMENTS if row.stage in (*BUILT, *UNDER_WAY)}
    wrong = {mark.test: mark.rows() for mark in marks if not mark.ids or not set(mark.rows()) <= begun}
    assert not wrong, f"unknown or not begun yet: {list(wrong.items())[:20]}"


def test_files_and_functions_stay_within_their_budgets() -> None:
    over = {name: lines for name, lines, most in measured() if lines > most}
    unexplained = {name: lines for name, lines in over.items() if not LONGER.get(name)}
    assert not unexplained, f"too long: {unexplained}"
    assert not LONGER.keys() - over.keys(), "remove the exceptions that are not needed any more"


def test_classes_stay_within_their_budgets() -> None:
    over = {
        f"{name}::{node.name}": counts
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for counts in [(len(methods_of(node)), len(attributes_of(node)))]
        if counts[0] > METHODS_MAX or counts[1] > ATTRIBUTES_MAX
    }
    unexplained = {name: counts for name, counts in over.items() if not LARGER.get(name)}
    assert not unexplained, f"too many methods or attributes; split them by concern: {unexplained}"
    assert not LARGER.keys() - over.keys(), "remove the exceptions that are not needed any more"


def test_no_module_is_a_fragment_of_its_only_importer() -> None:
    importers = importers_of_modules()
    short = {name for name, lines, _ in measured() if "::" not in name and lines < FRAGMENT_LINES}
    found = {name for name in importers if f"src/tellwire/{name}" in short and len(importers[name]) == 1}
    unexplained = {name: importers[name] for name in found if not FRAGMENTS.get(name)}
    assert not unexplained, f"merge these with the one that imports them: {unexplained}"
    assert not FRAGMENTS.keys() - found, "remove the exceptions that are not needed any more"


def test_each_folder_is_small_says_what_it_owns_and_is_on_the_map() -> None:
    tree = (
        (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("\nsrc/tellwire/\n")[2].partition("\n```")[0]
    )
    words = set(re.findall(r"\w+", tree))
    for package in sorted((ROOT / "src/tellwire").rglob("__init__.py")):
        folder = package.parent
        name = folder.relative_to(ROOT).as_posix()
        modules = {each.stem for each in folder.glob("*.py")} - {"__init__"}
        assert len(modules) <= FOLDER_MODULES_MAX, f"{name} has {len(modules)} modules"
        assert ast.get_docstring(ast.parse(package.read_text("utf-8"))), f"{name} does not say what it owns"
        assert folder.name in words, f"{name} is not in ARCHITECTURE.md"
        if folder.parent.name not in ON_THE_MAP_AS_A_WHOLE and folder.name not in ON_THE_MAP_AS_A_WHOLE:
            assert modules <= words, f"{modules - words} of {name} are not in ARCHITECTURE.md"


def test_only_the_broker_and_its_wiring_know_the_engine_and_the_server() -> None:
    """Everybody else names the port that it needs (docs/decisions/0040-ports.md)."""
    knowing = {"wiring.py", "daemon.py"}
    found = [
        name
        for name, tree in modules()
        if name not in knowing and not name.startswith("broker/") and imports_engine_or_server(tree)
    ]
    assert not found, (
        "these import the engine or the server; have their constructors take a port of broker/ports or "
        f"an object of broker/registrations: {found}"
    )


def test_nobody_is_wired_after_construction() -> None:
    """Where parts are put together, and in every constructor, only one's own attributes are set."""
    found: list[str] = []
    for name, tree in modules():
        roots = [tree] if name in ("wiring.py", "daemon.py") else list(constructors(tree))
        own = {"self", "cls", *imported_modules(tree)}  # `logging.raiseExceptions` is no part of ours
        found += [
            f"{name}:{target.lineno}: {ast.unparse(target)}"
            for root in roots
            for target in attributes_set(root)
            if not (isinstance(target.value, ast.Name) and target.value.id in own)
        ]
    assert not found, "pass it to the constructor, or register it by a method:\n" + "\n".join(found)


def test_what_waits_is_given_its_times() -> None:
    """Real waits come through the constructor, collected in `daemon.Times`: a test can pass short ones."""
    rooms = ("broker/", "children/", "mcp/", "sessions/")
    found = [
        f"{name}:{call.lineno}: {constant}"
        for name, tree in modules()
        if name.startswith(rooms) or name in ("wiring.py", "daemon.py")
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and name_of(call) in WAITS
        for constant in times_in(call)
        if constant not in FIXED
    ]
    assert not found, "take these from a struct of times:\n" + "\n".join(found)


def test_nothing_names_a_registry_or_a_path_of_one_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {what}"
        for path in our_files()
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1)
        for what, pattern in FORBIDDEN.items()
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


def test_the_package_and_the_project_file_tell_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["version"] == VERSION


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package, by its path in it."""
    package = ROOT / "src" / "tellwire"
    for path in sorted(package.rglob("*.py")):
        yield path.relative_to(package).as_posix(), ast.parse(path.read_text("utf-8"))


def imports_engine_or_server(tree: ast.Module) -> bool:
    """Whether a module imports one of these two modules, or anything from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{each.name}" for each in node.names} | {node.module or ""}
        elif isinstance(node, ast.Import):
            names = {each.name for each in node.names}
        else:
            continue
        if any(re.match(r"tellwire\.broker\.(engine|server)\b", name) for name in names):
            return True
    return False


def importers_of_modules() -> dict[str, set[str]]:
    """Each module but the packages' own, with the modules that import it."""
    parsed = dict(modules())
    names = {f"tellwire.{name[:-3].replace('/', '.')}": name for name in parsed if "__init__" not in name}
    found: dict[str, set[str]] = {name: set() for name in names.values()}
    for importer, tree in parsed.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                imported = {node.module or "", *(f"{node.module}.{each.name}" for each in node.names)}
            elif isinstance(node, ast.Import):
                imported = {each.name for each in node.names}
            else:
                continue
            for name in imported & names.keys():
                found[names[name]].add(importer)
    return found


def methods_of(node: ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


def attributes_of(node: ast.ClassDef) -> set[str]:
    """What an object keeps: all that its methods set. The fields of a record are data, and not counted."""
    return {
        target.attr
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
        for target in ast.walk(method)
        if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store)
        if isinstance(target.value, ast.Name) and target.value.id == "self"
    }


def imported_modules(tree: ast.Module) -> set[str]:
    return {
        each.asname or each.name for node in tree.body if isinstance(node, ast.Import) for each in node.names
    }


def name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def times_in(call: ast.Call) -> Iterator[str]:
    """The constants, named or not, that tell a call how long to wait."""
    for argument in [
        *call.args,
        *(each.value for each in call.keywords if each.arg in ("timeout", "within_s")),
    ]:
        if isinstance(argument, ast.Name) and re.fullmatch(r"[A-Z_]+_S", argument.id):
            yield argument.id
        elif isinstance(argument, ast.Constant) and isinstance(argument.value, float):
            yield str(argument.value)


def constructors(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__init__")


def attributes_set(root: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that are assigned to, or whose items are."""
    for node in ast.walk(root):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            node = node.value
        elif not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)):
            continue
        if isinstance(node, ast.Attribute):
            yield node


def measured() -> Iterator[tuple[str, int, int]]:
    """Name, lines and most lines allowed of every file and function of the package."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text("utf-8")
        yield name, len(text.splitlines()), FILE_LINES_MAX
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                yield f"{name}::{node.name}", lines, FUNCTION_LINES_MAX


def our_files() -> list[Path]:
    """What git tracks or would; where there is no git, every file that is not made by a tool."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.CalledProcessError):
        files = [path for path in ROOT.rglob("*") if not NOT_OURS & set(path.relative_to(ROOT).parts)]
    else:
        files = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in files if path.is_file()]
