"""Files that are replaced as a whole."""

import os
import stat
from pathlib import Path

import pytest

from tellwire.system.files import read_bounded, sync_folder, write_atomically


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("fsync", [False, True])
def test_a_file_gets_its_contents_and_mode_and_nothing_is_left_beside_it(
    tmp_path: Path, shared: bool, fsync: bool
) -> None:
    path = tmp_path / "a.json"
    for data, mode in ((b"one", 0o600), (b"two, and longer", 0o640), (b"", 0o600)):
        write_atomically(path, data, mode=mode, owner=(os.getuid(), os.getgid()), fsync=fsync, shared=shared)
        assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (data, mode)
        assert os.listdir(tmp_path) == ["a.json"]
    sync_folder(str(tmp_path))


def test_whoever_has_the_old_file_open_reads_the_old_contents(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomically(path, b"old")
    with path.open("rb") as file:
        write_atomically(path, b"new")
        assert file.read() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("shared", [False, True])
def test_what_cannot_be_replaced_stays_as_it_was(tmp_path: Path, shared: bool) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    with pytest.raises(OSError, match="irectory"):
        write_atomically(path, b"new", shared=shared)
    assert os.listdir(tmp_path) == ["folder"]
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "none" / "a", b"new", shared=shared)


def test_what_a_killed_writer_left_is_used_up_and_a_link_there_is_not_followed(tmp_path: Path) -> None:
    path, left = tmp_path / "a", tmp_path / ".a.new"
    left.write_bytes(b"half of what was to be wri")
    write_atomically(path, b"new")
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"new", ["a"])
    (tmp_path / "other").write_bytes(b"other")
    left.symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic"):
        write_atomically(path, b"newer")
    assert (path.read_bytes(), (tmp_path / "other").read_bytes()) == (b"new", b"other")


def test_a_file_is_read_up_to_a_bound(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abcdef")
    assert read_bounded(tmp_path / "a", 4) == b"abcd"
    assert read_bounded(tmp_path / "a", 60) == b"abcdef"
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "b", 1)
