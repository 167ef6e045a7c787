"""Fault points: places where a test can end the process as a power cut would.

`EVENFLOW_CRASH=name:k` kills the process with SIGKILL when it reaches `name` the k-th time. The
file `EVENFLOW_CRASH_MARK` is created just before and prevents a second kill.
`name:k:executor` also kills the executor that a Python worker belongs to.
"""

import os
import signal
from collections import Counter
from pathlib import Path

_times_reached: Counter[str] = Counter()


def fault_point(name: str) -> None:
    """Mark a place before or after a durable write."""
    wanted, times, victim = [*os.environ.get("EVENFLOW_CRASH", "").split(":"), "", ""][:3]
    if wanted != name:
        return
    _times_reached[name] += 1
    mark = Path(os.environ["EVENFLOW_CRASH_MARK"])
    if _times_reached[name] < int(times or 1) or mark.exists():
        return
    mark.touch()
    if victim == "executor":  # the executor started the daemon that forked this worker
        status = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
