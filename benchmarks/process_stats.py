"""CPU time and memory of this program and all it has started, read from /proc."""

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def _family() -> Iterator[Path]:
    """List this process and its descendants."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(status.parent.name))
    waiting = [os.getpid()]
    while waiting:
        process = waiting.pop()
        waiting += children.get(process, [])
        yield Path(f"/proc/{process}")


def cpu_seconds() -> float:
    """Add up the CPU time that the processes, and their children that ended, have used."""
    total = 0
    for process in _family():
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(fields[at]) for at in (11, 12, 13, 14))
    return total / _TICKS


def peak_mb() -> dict[str, float]:
    """Give the largest resident memory so far: driver (JVM and Python), all Python workers."""
    driver = workers = 0
    for process in _family():
        try:
            is_worker = b"pyspark.daemon" in (process / "cmdline").read_bytes()
            lines = (process / "status").read_text().splitlines()
        except OSError:
            continue
        peak = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
        driver, workers = driver + peak * (not is_worker), workers + peak * is_worker
    return {"driver_peak_mb": round(driver / 1024), "workers_peak_mb": round(workers / 1024)}
