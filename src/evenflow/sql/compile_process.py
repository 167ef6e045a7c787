"""Compile SQL in a process of its own, with limits, so that a text can delay or harm nobody."""

import os
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection, Pipe

from evenflow.errors import InputError
from evenflow.sql.compile_server import CPU_SECONDS, CompileRequest
from evenflow.sql.deadline_watch import seconds_waited
from evenflow.sql.program import Program

ANSWER_SECONDS = 20.0  # with the start of the process, without time in which it has no core


class CompileProcess:
    """One process that compiles, started when it is first needed and again after it was ended.

    Driver process, as long as it lives. Any thread may call it; calls take turns, so hold no lock
    that batches need. The process ends when its socket is closed, at the latest with the driver.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def compile(self, request: CompileRequest) -> Program:
        """Compile a query or a template, or refuse it."""
        with self._lock:
            answer = self._ask(request)
        if isinstance(answer, str):
            raise InputError(answer)
        return answer

    def start(self) -> None:
        """Start the process if it does not run."""
        with self._lock:
            self._connect()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _ask(self, request: CompileRequest) -> Program | str:
        connection = self._connect()
        try:
            connection.send(request)
            if self._has_answer(connection):
                answer: Program | str
                answer, is_sound = connection.recv()
                if not is_sound:
                    self._end()
                return answer
        except (EOFError, OSError):
            pass  # the process has ended
        self._end()
        return (
            f"query {request.name!r} takes more than {CPU_SECONDS} seconds of CPU time, or too "
            "much memory, to be compiled; split it"
        )

    def _has_answer(self, connection: Connection) -> bool:
        """Wait for an answer: not for ever, as a function of the user may sleep."""
        process, began = 0 if self._process is None else self._process.pid, time.monotonic()
        waited_before = seconds_waited(process, process)
        while not connection.poll(1.0):
            waited = seconds_waited(process, process) - waited_before  # for a core
            if time.monotonic() - began - max(0.0, waited) > ANSWER_SECONDS:
                return False
        return True

    def _connect(self) -> Connection:
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._connection is None:
            ours, theirs = Pipe()
            path = os.pathsep.join(entry for entry in sys.path if entry)
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "evenflow.sql.compile_server", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the driver
                env={**os.environ, "PYTHONPATH": path},
            )
            theirs.close()
            self._connection = ours
        return self._connection

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


COMPILE_PROCESS = CompileProcess()  # of this process
