"""Messages between a worker and the process of an operator: a JSON header and Arrow tables.

The operator's code is not trusted, so nothing is unpickled, sizes are bounded, and tables are
checked before they are used.
"""

import json
import socket
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from evenflow.storage.bundle import pack, unpack

TICK_SECONDS = 0.05
MAX_HEADER_BYTES = 1 << 20
MAX_TABLE_BYTES = 1 << 30
MAX_TABLES = 1000
_LENGTH = struct.Struct("<Q")
_TABLES = "tables"  # in a header: how many tables follow


class OperatorChannel:
    """One end of a socket; `wait` is called every tick while the other end is waited for."""

    def __init__(self, end: socket.socket, wait: Callable[[], None] | None = None) -> None:
        self._socket, self._wait = end, wait
        end.settimeout(None if wait is None else TICK_SECONDS)

    def send(self, header: dict[str, Any], tables: Sequence[pa.Table] = ()) -> None:
        """Send a header and tables."""
        parts = [pack(table) for table in tables]  # before anything is sent: it may fail
        self._send(json.dumps({**header, _TABLES: len(parts)}).encode())
        for part in parts:
            self._send(part)

    def receive(self) -> tuple[dict[str, Any], list[pa.Table]]:
        """Return the next header and its tables; ConnectionError once the other end is closed."""
        header = json.loads(bytes(self._receive(MAX_HEADER_BYTES)))
        count = header.pop(_TABLES)
        if not 0 <= count <= MAX_TABLES:
            raise ValueError(f"a message has {count} tables")
        return header, [self._receive_table() for _ in range(count)]

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _receive_table(self) -> pa.Table:
        table = unpack(pa.py_buffer(self._receive(MAX_TABLE_BYTES)))
        table.validate(full=True)
        return table

    def _send(self, data: bytes | pa.Buffer) -> None:
        for part in (_LENGTH.pack(len(data)), data):
            left = memoryview(part)
            while left:
                left = left[self._retry(partial(self._socket.send, left)) :]

    def _receive(self, most_bytes: int) -> bytearray:
        (length,) = _LENGTH.unpack(self._receive_exactly(_LENGTH.size))
        if length > most_bytes:
            raise ValueError(f"a message has {length} bytes; {most_bytes} are allowed")
        return self._receive_exactly(length)

    def _receive_exactly(self, length: int) -> bytearray:
        data = bytearray(length)
        left = memoryview(data)
        while left:
            got = self._retry(partial(self._socket.recv_into, left))
            if not got:
                raise ConnectionResetError("the other end is closed")
            left = left[got:]
        return data

    def _retry(self, action: Callable[[], int]) -> int:
        while True:
            try:
                return action()
            except TimeoutError:
                if self._wait is not None:
                    self._wait()
