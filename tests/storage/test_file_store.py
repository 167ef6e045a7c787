"""Writes: on the disk when they say so, and nothing left of those that failed."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenflow.storage.file_store import FileStore

ENDLESS = """
import sys, time
from evenflow.storage.file_store import FileStore

def parts():
    yield b"x" * 100_000
    print("half", flush=True)
    time.sleep(100)

FileStore(sys.argv[1]).write("state/a", parts())
"""


def all_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield b"one"
        raise OSError("no space left")

    store = FileStore(str(tmp_path))
    store.write("state/a", [b"before"])
    with pytest.raises(OSError, match="no space"):
        store.write("state/a", parts())
    assert all_files(tmp_path) == ["state/a"]
    assert store.read("state/a").to_pybytes() == b"before"


def test_what_a_killed_writer_left_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    for kept in ("pulse/.folder", "spark/offsets/.0.crc", "spark/.a.0123456789ab", "state/b"):
        (tmp_path / kept).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / kept).touch()
    before = all_files(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path)], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        os.kill(writer.pid, signal.SIGKILL)
    assert len(all_files(tmp_path)) == len(before) + 1
    FileStore(str(tmp_path)).delete_temporary()
    assert all_files(tmp_path) == before


def test_temporary_files_of_a_remote_store_are_deleted() -> None:
    store = FileStore("mock:///flow")
    store.write("state/.a.0123456789ab", [b"x"])
    store.write("state/b", [b"x"])
    store.delete_temporary()
    assert not store.exists("state/.a.0123456789ab")
    assert store.exists("state/b")


def test_a_new_root_is_for_its_owner_only(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "parent" / "run"))
    store.write("results/data/x", [b"rows"])
    assert stat.S_IMODE((tmp_path / "parent" / "run").stat().st_mode) == 0o700
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    FileStore(str(shared)).write("x", [b""])
    assert stat.S_IMODE(shared.stat().st_mode) == 0o755  # as its owner wants it
