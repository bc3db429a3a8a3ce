"""Names the owner of the repository: in release.json, and in README.md, where the MCP registry looks."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
OWNER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?")
MARK = re.compile(r"\n<!-- mcp-name: [^>]* -->\n")


def main() -> int:
    """Write both."""
    owner = sys.argv[1] if len(sys.argv) == 2 else ""
    if not OWNER.fullmatch(owner):
        sys.stderr.write("Name the owner of the repository: make release OWNER=name\n")
        return 2
    (ROOT / "release.json").write_text(json.dumps({"owner": owner}) + "\n", "utf-8")
    readme = ROOT / "README.md"
    text = MARK.sub("\n", readme.read_text("utf-8")).rstrip("\n")
    readme.write_text(f"{text}\n\n<!-- mcp-name: io.github.{owner}/tellwire -->\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
