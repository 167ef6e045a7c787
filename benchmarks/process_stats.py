"""CPU time and memory of this process and its descendants, read from /proc."""

import ctypes
import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

_TICKS = os.sysconf("SC_CLK_TCK")


def _process_tree() -> Iterator[Path]:
    """Yield the /proc folders of this process and its descendants."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(status.parent.name))
    pending = [os.getpid()]
    while pending:
        process = pending.pop()
        pending += children.get(process, [])
        yield Path(f"/proc/{process}")


def cpu_seconds() -> float:
    """Return the CPU seconds of the processes and of their ended children."""
    total = 0
    for process in _process_tree():
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(fields[index]) for index in (11, 12, 13, 14))
    return total / _TICKS


def peak_mb() -> dict[str, float]:
    """Return the peak resident memory of the driver (JVM and Python) and of the Python workers."""
    driver = workers = 0
    for process in _process_tree():
        try:
            is_worker = b"pyspark.daemon" in (process / "cmdline").read_bytes()
            lines = (process / "status").read_text().splitlines()
        except OSError:
            continue
        peak = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
        driver, workers = driver + peak * (not is_worker), workers + peak * is_worker
    return {"driver_peak_mb": round(driver / 1024), "workers_peak_mb": round(workers / 1024)}


def current_mb() -> dict[str, float]:
    """Return the resident memory now: driver's Python, JVM, and Python workers."""
    found = {"driver_mb": 0, "jvm_mb": 0, "workers_mb": 0}
    for process in _process_tree():
        try:
            command = (process / "cmdline").read_bytes()
            lines = (process / "status").read_text().splitlines()
        except OSError:
            continue
        size = next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)
        name = "jvm_mb" if b"java" in command.split(b"\0")[0] else "workers_mb"
        found["driver_mb" if process.name == str(os.getpid()) else name] += size // 1024
    return dict(found)


def process_totals() -> dict[str, float]:
    """Return memory, threads and open files now: driver's Python, JVM, Python workers, others."""
    found: dict[str, float] = {}
    for process in _process_tree():
        try:
            command = (process / "cmdline").read_bytes()
            status = dict(
                line.split(":\t", 1) for line in (process / "status").read_text().splitlines()
            )
            files = sum(1 for _ in (process / "fd").iterdir())
        except (OSError, ValueError):
            continue
        group = "other"
        if process.name == str(os.getpid()):
            group = "driver"
        elif b"java" in command.split(b"\0")[0]:
            group = "jvm"
        elif b".daemon" in command:
            group = "workers"
        for name, value in (
            ("mb", int(status.get("VmRSS", "0 kB").split()[0]) / 1024),
            ("threads", int(status["Threads"])),
            ("open_files", files),
            ("processes", 1),
        ):
            found[f"{group}_{name}"] = found.get(f"{group}_{name}", 0) + value
    return found


class _MallInfo(ctypes.Structure):
    """What glibc's `mallinfo2` returns."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost",
    )]  # fmt: skip


def allocated() -> dict[str, float]:
    """Return what this process has allocated, whatever stays resident: objects, malloc, Arrow."""
    gc.collect()
    info = ctypes.CDLL(None).mallinfo2
    info.restype = _MallInfo
    found = info()
    return {
        "driver_objects": len(gc.get_objects()),
        "driver_malloc_mb": (found.uordblks + found.hblkhd) / 1e6,
        "driver_malloc_free_mb": found.fordblks / 1e6,
        "driver_arrow_mb": pa.total_allocated_bytes() / 1e6,
    }
