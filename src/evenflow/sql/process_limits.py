"""Limits that a process sets on itself before it runs what others wrote."""

import resource
from contextlib import suppress
from pathlib import Path


def limit_memory(more_bytes: int, *, keep_hard: bool = False) -> None:
    """Limit the private writable memory to some more bytes, where the system can (Linux).

    A limit that is lower stays; with `keep_hard` this one can be taken back.
    """
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        used = int(next(line for line in lines if line.startswith("VmData")).split()[1]) << 10
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        found = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
        limit = min([used + more_bytes, *found])
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard if keep_hard else limit))
