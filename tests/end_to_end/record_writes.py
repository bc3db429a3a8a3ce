"""Record what real clients tell before they write a file: tests/samples/<client>/writes.json.

python -m tests.end_to_end.record_writes [claude] [codex] [gemini] [opencode] [pi]
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from tests.end_to_end.clients import run
from tests.end_to_end.model import Model
from tests.end_to_end.record import PLANS, Recording
from tests.end_to_end.samples import Cleaner, load_lines, save
from tests.end_to_end.script import Step, call, say
from tests.end_to_end.test_scopes import HANDS
from tests.integration.world import Home

BEFORE = ("PreToolUse", "BeforeTool", "tool.execute.before", "tool_call")
PATCH = """\
*** Begin Patch
*** Add File: made.txt
+new
*** Update File: note.txt
*** Move to: moved.txt
@@
-The parser is finished.
+The parser is not finished.
*** Delete File: old.txt
*** End Patch
"""


def steps(name: str, project: Path) -> list[Step]:
    """Each of its tools that write files, once."""
    note = str(project / "note.txt")
    notebook = str(project / "book.ipynb")
    return {
        "claude": [
            call("Write", file_path=f"{project}/made.txt", content="new\n"),
            call("Read", file_path=note),
            call("Edit", file_path=note, old_string="finished", new_string="done"),
            call("Read", file_path=notebook),
            call("NotebookEdit", notebook_path=notebook, new_source="2", cell_id="a", edit_mode="replace"),
        ],
        "codex": [call("apply_patch", input=PATCH), call("exec_command", cmd="echo x > shell.txt")],
        "gemini": [
            call("write_file", file_path="made.txt", content="new\n"),
            call("replace", file_path=note, instruction="x", old_string="finished", new_string="done"),
        ],
        "opencode": [
            call("write", filePath="made.txt", content="new\n"),
            call("read", filePath=note),
            call("edit", filePath=note, oldString="finished", newString="done"),
        ],
        "pi": [
            call("write", path="made.txt", content="new\n"),
            call("edit", path=note, edits=[{"oldText": "finished", "newText": "done"}]),
        ],
    }[name]


async def record(name: str) -> None:
    """Record one client."""
    mesh = Home(Path(tempfile.mkdtemp(prefix="tlw-")))
    try:
        async with Model.open() as model:
            PLANS[name] = PLANS[name]._replace(mesh=False)
            it = Recording(name, model, mesh)
            HANDS[name].allow(it.client)
            (it.client.project / "old.txt").write_text("old\n", encoding="utf-8")
            cell = (
                '{"id":"a","cell_type":"code","source":"1","metadata":{},"outputs":[],"execution_count":null}'
            )
            book = f'{{"cells":[{cell}],"metadata":{{}},"nbformat":4,"nbformat_minor":5}}'
            (it.client.project / "book.ipynb").write_text(book, encoding="utf-8")
            model.play(name, *steps(name, it.client.project), say("done"))
            ran = await run(it.client, "Write the files.")
            assert ran.code == 0, ran
            log = load_lines(it.home / "hook.log")
            lines = [
                {"event": line["event"], "payload": line["payload"]}
                for line in log
                if line["event"] in BEFORE
            ]
            cleaner = Cleaner(it.home)
            path = save(name, "writes.json", [cleaner.clean(line) for line in lines])
            sys.stdout.write(f"{path.relative_to(path.parents[3])}: {len(lines)}\n")
            shutil.rmtree(it.home, ignore_errors=True)
    finally:
        mesh.end()
        shutil.rmtree(mesh.path, ignore_errors=True)


async def main(names: list[str]) -> None:
    """Record the named clients, or all."""
    for name in names or PLANS:
        await record(name)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
