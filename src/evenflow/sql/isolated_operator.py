"""Operators in a process of their own: a crash, a hang or a leak there is the operator's alone.

The worker keeps the state and sends it with the rows of each batch, so the process can end at any
time: saving, moving and splitting the state are as for any operator.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from evenflow.sql.deadline_watch import DeadlineWatch, seconds_waited
from evenflow.sql.failures import QueryFailed
from evenflow.sql.memory_group import MemoryGroup
from evenflow.sql.operator_channel import OperatorChannel
from evenflow.sql.spill import machine_memory_bytes

MEMORY_SHARE = 0.125  # of the machine or container, on top of what the idle process has
MIN_MEMORY_BYTES = 512 << 20
_IDLE_BYTES = 256 << 20  # of the idle process
START_SECONDS = 30.0  # to import the operator's modules, besides the time limit of the call
ATTEMPTS = 2  # for a process that anyone may have killed
_SIGNALS_OF_OTHERS = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT}

Message = tuple[dict[str, Any], list[pa.Table]]


class IsolatedOperator:
    """An operator that is called in another process; has what `OperatorTask` needs of `Operator`.

    Worker process, shared by its tasks of one query. The process is started by the first call and
    ended by `close` or by the deadline of `watch`; a later call starts it again.
    """

    def __init__(self, path: str, watch: DeadlineWatch) -> None:
        self.cpu_seconds = 0.0  # of all calls
        self._path, self._watch = path, watch
        self._process: subprocess.Popen[bytes] | None = None
        self._group: MemoryGroup | None = None
        self._channel: OperatorChannel | None = None
        self._waited_before = 0.0
        self._exit_code: int | None = None
        self._asks_when_due = self._has_merge = False
        self._schema = self._state = pa.schema([])

    @property
    def schema(self) -> pa.Schema:
        """The columns of the results."""
        self._connect()
        return self._schema

    @property
    def state(self) -> pa.Schema:
        """The columns of the state."""
        self._connect()
        return self._state

    def step(
        self, rows: Mapping[str, pa.Table], state: pa.Table, watermark_us: int
    ) -> tuple[pa.Table, pa.Table]:
        """Return the results of a batch, and the state after it."""
        call = {"streams": list(rows), "watermark_us": watermark_us}
        _, (result, after) = self._call(call, [*rows.values(), state])
        return result, after

    def has_merge(self) -> bool:
        """Tell whether the operator declares `merge`."""
        self._connect()
        return self._has_merge

    def merge(self, state: pa.Table, part: pa.Table) -> pa.Table:
        """Return one state for two states of the same keys."""
        _, (merged,) = self._call({"part": True}, [part, state])
        return merged

    def next_due_us(self, state: pa.Table) -> Any:
        """Return when the operator wants to be called without rows, as it says."""
        self._connect()
        return self._call({}, [state])[0]["due_us"] if self._asks_when_due else None

    def close(self) -> None:
        """End the process."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._group is not None:
            self._group.close()
            self._group = None

    def _call(self, call: dict[str, Any], tables: list[pa.Table]) -> Message:
        for attempt in range(ATTEMPTS):
            channel = self._connect()
            cpu_before = self._cpu_seconds()
            try:
                return self._exchange(channel, call, tables)
            except ConnectionError:
                if self._exit_code not in _SIGNALS_OF_OTHERS or attempt + 1 == ATTEMPTS:
                    raise QueryFailed("error", f"its process ended: {self._ending}") from None
            finally:
                self.cpu_seconds += max(0.0, self._cpu_seconds() - cpu_before)
        raise AssertionError("the last attempt returns or raises")

    def _exchange(
        self, channel: OperatorChannel, call: dict[str, Any] | None, tables: Sequence[pa.Table] = ()
    ) -> Message:
        """Send a call and return the answer; end the process unless it answers."""
        try:
            if call is not None:
                channel.send(call, tables)
            header, answer = channel.receive()
        except ConnectionError:
            self._note_ending()
            self.close()
            raise
        except BaseException:  # out of time, or not a message
            self.close()
            raise
        if "error" in header:
            raise QueryFailed("error", str(header["error"]))
        return header, answer

    def _connect(self) -> OperatorChannel:
        if self._process is not None and self._process.poll() is None and self._channel is not None:
            return self._channel
        self.close()
        ours, theirs = socket.socketpair()
        memory = max(MIN_MEMORY_BYTES, int(machine_memory_bytes() * MEMORY_SHARE))
        path = os.pathsep.join(entry for entry in sys.path if entry)
        server = [sys.executable, "-m", "evenflow.sql.operator_server", str(theirs.fileno())]
        self._process = subprocess.Popen(  # noqa: S603
            [*server, self._path, str(memory)],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=2,  # Spark reads the standard output of its Python processes
            start_new_session=True,
            # Arrow's other pools reserve memory that they do not use, which would count.
            env={**os.environ, "PYTHONPATH": path, "ARROW_DEFAULT_MEMORY_POOL": "system"},
        )
        theirs.close()
        # What the process starts counts too, where a control group can be made; else nothing does.
        self._group = MemoryGroup.create(self._process.pid, memory + _IDLE_BYTES)
        self._waited_before = 0.0
        self._channel = OperatorChannel(ours, self._check_time)
        try:
            with self._watch.grace(START_SECONDS):
                header, (schema, state) = self._exchange(self._channel, None)
        except ConnectionError:
            raise QueryFailed("error", f"its process does not start: {self._ending}") from None
        self._asks_when_due = bool(header["asks_when_due"])
        self._has_merge = bool(header["has_merge"])
        self._schema, self._state = schema.schema, state.schema
        return self._channel

    def _check_time(self) -> None:
        """Fail at the deadline of the query; time in which its process had no core is given."""
        if self._process is not None:
            waited = seconds_waited(self._process.pid, self._process.pid)
            self._watch.extend(max(0.0, waited - self._waited_before))
            self._waited_before = waited
        self._watch.raise_if_expired()

    def _note_ending(self) -> None:
        self._exit_code = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._exit_code = self._process.wait(timeout=1)

    @property
    def _ending(self) -> str:
        """How the process ended; a fault or an exit is its own doing, a kill may be another's."""
        if self._exit_code is None:
            return "it closed its connection"
        if self._exit_code >= 0:
            return f"exit code {self._exit_code}"
        kills = f", {ATTEMPTS} times" if self._exit_code in _SIGNALS_OF_OTHERS else ""
        return f"signal {-self._exit_code}{kills}"

    def _cpu_seconds(self) -> float:
        """Return the CPU time of the process so far, by the system's clock (Linux)."""
        if self._process is None:
            return 0.0
        with suppress(OSError, OverflowError):
            return time.clock_gettime(~self._process.pid << 3 | 2)
        return 0.0
