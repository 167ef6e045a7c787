"""Control groups: what a process starts counts towards its limit, and ends with it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.poll import until

from evenflow.sql.memory_group import MemoryGroup

BREEDS = """
import subprocess, sys
input()
child = "x = b'1' * (96 << 20); print(len(x), flush=True); import time; time.sleep(600)"
for _ in range(4):
    subprocess.Popen([sys.executable, "-S", "-c", child], start_new_session=True)
print("started", flush=True)
"""


def test_children_count_and_end_with_their_group() -> None:
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", BREEDS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    group = MemoryGroup.create(process.pid, 256 << 20)
    if group is None:
        process.kill()
        process.wait()
        pytest.skip("no control group can be made here")
    members = group.members
    try:
        process.stdin.write(b"\n")
        process.stdin.close()
        lines = [process.stdout.readline() for _ in range(3)]  # two children fit, with their parent
        assert any(line.strip() == str(96 << 20).encode() for line in lines)
        until(lambda: len(members()) < 5, seconds=60)
        assert len(members()) < 5, "four children of 96 MB do not fit into 256 MB"
        left = members()
    finally:
        group.close()
        process.wait()
    assert not any(Path(f"/proc/{pid}/cmdline").exists() and _is_running(pid) for pid in left)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_places_of_both_versions(tmp_path: Path) -> None:
    """Files as Linux shows them: a slice of the user is delegated, that of the system is not."""
    own = tmp_path / "own"
    own.write_text("0::/user.slice/app.scope\n")
    (tmp_path / "user.slice" / "app.scope").mkdir(parents=True)
    assert MemoryGroup.create(os.getpid(), 1, tmp_path, own) is None, "no controller is enabled"
    (tmp_path / "user.slice/cgroup.subtree_control").write_text("cpu memory\n")
    assert MemoryGroup.create(os.getpid(), 7, tmp_path, own) is not None
    made = tmp_path / f"user.slice/evenflow-{os.getpid()}"
    assert (made / "memory.max").read_text() == "7"
    assert (made / "cgroup.procs").read_text() == str(os.getpid())
    own.write_text("4:memory:/box\n0::/\n")
    (tmp_path / "memory/box").mkdir(parents=True)
    assert MemoryGroup.create(os.getpid(), 9, tmp_path, own) is not None
    limit = tmp_path / f"memory/box/evenflow-{os.getpid()}/memory.limit_in_bytes"
    assert limit.read_text() == "9"
