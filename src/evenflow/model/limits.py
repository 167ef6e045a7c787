"""Memory and disk that queries may use in a worker process."""

import re
from dataclasses import dataclass

from evenflow.errors import InputError

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
          "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?b)", re.IGNORECASE)
MIN_MEMORY_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """What SQL may use in each worker process; None: a share of the machine.

    memory  of DuckDB, for example `2 GB`: joins, aggregates and reference tables while they are
            computed; a statement that needs more spills to the local disk
    spill   most disk space that it spills to; `0 B`: it fails instead
    """

    memory: str | None = None
    spill: str | None = None

    def __post_init__(self) -> None:
        if self.memory is not None and size_bytes(self.memory, "memory") < MIN_MEMORY_BYTES:
            raise InputError(f"memory must be at least 32 MiB, got {self.memory!r}")
        if self.spill is not None:
            size_bytes(self.spill, "spill")


def size_bytes(text: str, what: str) -> int:
    """Parse a size; `what` names the setting in errors.

    >>> size_bytes("1.5 GB", "memory"), size_bytes("64MiB", "memory")
    (1500000000, 67108864)
    """
    found = _SIZE.fullmatch(text.strip())
    if not found or found[2].lower() not in _UNITS:
        raise InputError(f"{what} {text!r} is not a size; write for example '2 GB'")
    return int(float(found[1]) * _UNITS[found[2].lower()])
