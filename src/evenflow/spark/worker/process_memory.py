"""The memory limit of a worker's Python process: an operator's memory is not DuckDB's.

Beyond the limit an allocation fails, which the guard sees as the failure of one query, instead of
the machine running out of memory and ending processes of its own choice.
"""

import os
import resource
from contextlib import suppress

from evenflow.sql.spill import machine_memory_bytes

_SHARE = 0.8  # of the machine or container, for all processes: one for each core
_LEAST_BYTES = 2 << 30


def limit_process_memory(most_bytes: int | None = None) -> int:
    """Limit the private memory of this process; return it.

    By default the processes of all cores together stay below the machine's. A limit that is set
    already and lower stays. Mapped files do not count.
    """
    share = int(machine_memory_bytes() * _SHARE) // (os.cpu_count() or 1)
    wanted = most_bytes or max(_LEAST_BYTES, share)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    found = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    limit = min([wanted, *found])
    with suppress(OSError, ValueError):  # not every system has this limit
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    return limit
