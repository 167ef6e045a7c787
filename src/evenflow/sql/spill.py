"""Memory of an engine by the size of the machine, and the folder it spills to."""

import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evenflow.model.limits import MemoryLimits, size_bytes

_FOLDER_PREFIX = "evenflow-spill-"
_LEAST_BYTES = 256 << 20
_MEMORY_SHARE = 0.25  # the rest is for state, rows and results in Arrow, and for the JVM
_DISK_SHARE = 0.5
_CGROUP_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """Bytes of memory, and bytes on disk, that one engine may use; 0 on disk: it does not spill."""

    memory_bytes: int = _LEAST_BYTES
    spill_bytes: int = 0

    @classmethod
    def by_limits(cls, limits: MemoryLimits, processes: int) -> "EngineMemory":
        """Return what each of the worker processes of this machine may use."""
        share = int(machine_memory_bytes() * _MEMORY_SHARE) // max(1, processes)
        memory = max(_LEAST_BYTES, share)
        if limits.memory is not None:
            memory = size_bytes(limits.memory, "memory")
        free = shutil.disk_usage(tempfile.gettempdir()).free
        spill = int(free * _DISK_SHARE) // max(1, processes)
        if limits.spill is not None:
            spill = size_bytes(limits.spill, "spill")
        return cls(memory, spill)


def machine_memory_bytes() -> int:
    """Return the memory of this machine, or of the container if that is less."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in _CGROUP_FILES:
        with suppress(OSError, ValueError):
            sizes.append(int(Path(file).read_text()))
    return min(sizes)


def make_spill_folder() -> str:
    """Create a folder that only this process uses; delete those of processes that have ended."""
    root = Path(tempfile.gettempdir())
    for folder in root.glob(f"{_FOLDER_PREFIX}*"):
        pid = folder.name.removeprefix(_FOLDER_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists() and Path("/proc/self").exists():
            shutil.rmtree(folder, ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{os.getpid()}-")
