"""Names the owner of the repository: in release.json, and where packages and registries look for it.

That is the address in pyproject.toml, and a line in README.md by which the MCP registry knows the package.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
OWNER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?")
MARK = re.compile(r"\n<!-- mcp-name: [^>]* -->\n")
URLS = re.compile(r"\[project\.urls\]\n(?:.+\n)*\n")
BEFORE = "[tool.hatch.build]\n"


def main() -> int:
    """Write them all."""
    owner = sys.argv[1] if len(sys.argv) == 2 else ""
    if not OWNER.fullmatch(owner):
        sys.stderr.write("Name the owner of the repository: make release OWNER=name\n")
        return 2
    (ROOT / "release.json").write_text(json.dumps({"owner": owner}) + "\n", "utf-8")
    readme = ROOT / "README.md"
    text = MARK.sub("\n", readme.read_text("utf-8")).rstrip("\n")
    readme.write_text(f"{text}\n\n<!-- mcp-name: io.github.{owner}/tellwire -->\n", "utf-8")
    project = ROOT / "pyproject.toml"
    table = f'[project.urls]\nRepository = "https://github.com/{owner}/tellwire"\n\n'
    text = URLS.sub("", project.read_text("utf-8"))
    project.write_text(text.replace(BEFORE, f"{table}{BEFORE}", 1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
