"""The former name stands where it has to be recognised, and nowhere else."""

from __future__ import annotations

from pathlib import Path

from tellwire.protocol.addresses import FORMER
from tests.test_requirements import our_files

ROOT = Path(__file__).parent.parent.parent
MAY_SAY_IT = (
    "CHANGELOG.md",
    "docs/decisions/0016-install.md",  # what is recognised in client configurations
    "docs/decisions/0034-what-may-be-written.md",  # its frames are broken too
    "src/tellwire/protocol/addresses.py",  # the constant; all other code takes it from there
    "tests/surfaces/test_former_name.py",
    "tests/unit/test_addresses.py",
    "tests/unit/test_imitations.py",
    "tests/unit/test_install_toml.py",  # command lines whose hashes Codex itself computed
)


def test_only_these_files_say_the_former_name() -> None:
    word = FORMER.encode()
    found = [
        name
        for path in our_files()
        if word in (name := path.relative_to(ROOT).as_posix()).lower().encode()
        or word in path.read_bytes().lower()
    ]
    assert sorted(found) == sorted(MAY_SAY_IT)
