"""Crash points: places where a test may end the process as a power cut would.

`EVENFLOW_CRASH=name:k` kills the process with SIGKILL when `name` is reached the k-th time in it,
once: `EVENFLOW_CRASH_MARK` names a file that is made just before and prevents the next time.
`name:k:executor` kills the executor that a Python worker belongs to as well.
"""

import os
import signal
from collections import Counter
from pathlib import Path

_times_reached: Counter[str] = Counter()


def fault_point(name: str) -> None:
    """Mark a place around a durable write."""
    wanted, times, victim = [*os.environ.get("EVENFLOW_CRASH", "").split(":"), "", ""][:3]
    if wanted != name:
        return
    _times_reached[name] += 1
    if _times_reached[name] < int(times or 1):
        return
    mark = Path(os.environ["EVENFLOW_CRASH_MARK"])
    if not mark.exists():
        mark.touch()
        if victim == "executor":  # a worker is forked by a daemon, which the executor started
            status = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
