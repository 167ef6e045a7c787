"""The memory limit of a worker's Python process: an operator's memory is not DuckDB's.

Beyond the limit an allocation fails, which the guard sees as the failure of one query, instead of
the machine running out of memory and ending processes of its own choice.
"""

import resource
from contextlib import suppress

from evenflow.sql.spill import machine_memory_bytes

_SHARE = 0.5  # of the machine or container, for one process
_LEAST_BYTES = 2 << 30


def limit_process_memory(most_bytes: int | None = None) -> int:
    """Limit the private memory of this process, by default to half of the machine's; return it.

    A limit that is set already and lower stays. Mapped files do not count.
    """
    wanted = most_bytes or max(_LEAST_BYTES, int(machine_memory_bytes() * _SHARE))
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    found = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    limit = min([wanted, *found])
    with suppress(OSError, ValueError):  # not every system has this limit
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    return limit
