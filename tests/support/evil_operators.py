"""Operators that misbehave wherever our code calls them; each must harm only itself."""

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from evenflow.sql import Operator

COUNT = pa.schema([("n", pa.int64())])


class Counted(Operator):
    """Counts all rows: the well-behaved base of the others."""

    schema = COUNT
    state = COUNT

    def step(
        self, rows: Mapping[str, pa.Table], state: pa.Table, watermark_us: int
    ) -> tuple[pa.Table, pa.Table]:
        after = pa.table({"n": [sum(state["n"].to_pylist()) + len(rows["trades"])]})
        return after, after


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


class RaisesOnOpen(Counted):
    def __init__(self) -> None:
        raise OSError("no")


class ExitsOnStep(Counted):
    def step(self, *_: Any) -> Any:
        sys.exit(3)


class InterruptsOnStep(Counted):
    def step(self, *_: Any) -> Any:
        raise KeyboardInterrupt


class UnreadableOnStep(Counted):
    def step(self, *_: Any) -> Any:
        raise UnreadableError


class LongErrorOnStep(Counted):
    def step(self, *_: Any) -> Any:
        raise ValueError("\x1b[31m\ud800" * 1_000_000)


class RecursesOnStep(Counted):
    def step(self, *given: Any) -> Any:
        return self.step(*given)


class TakesMemory(Counted):
    """Takes 8 GB; only for a process with a limit."""

    def step(self, *_: Any) -> Any:
        return bytearray(8 << 30)


class NotATable(Counted):
    def step(self, *_: Any) -> Any:
        return [1, 2], None


class OtherColumns(Counted):
    def step(self, *given: Any) -> Any:
        self.schema = pa.schema([("other", pa.string())])  # type: ignore[misc]
        return pa.table({"other": ["a"]}), super().step(*given)[1]


class BadText(Counted):
    schema = pa.schema([("text", pa.string())])

    def step(self, *given: Any) -> Any:
        bytes_ = pa.array([b"\xff\xfe"], pa.binary())
        return pa.table([bytes_.view(pa.string())], ["text"]), super().step(*given)[1]


class DueRaises(Counted):
    def next_due_us(self, state: pa.Table) -> int | None:
        raise OverflowError("int too big to convert")


class DueExits(Counted):
    def next_due_us(self, state: pa.Table) -> int | None:
        sys.exit(1)


class DueText(Counted):
    def next_due_us(self, state: pa.Table) -> Any:
        return "soon"


class DueHuge(Counted):
    def next_due_us(self, state: pa.Table) -> int | None:
        return 1 << 80


class DuePast(Counted):
    """Always due, in the past: it would make batches without end."""

    def next_due_us(self, state: pa.Table) -> int | None:
        return 0


class DueSleeps(Counted):
    def next_due_us(self, state: pa.Table) -> int | None:
        time.sleep(600)
        return None


class Sleeps(Counted):
    def step(self, *_: Any) -> Any:
        time.sleep(600)


class KillsItself(Counted):
    def step(self, *_: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


class ExitsAtOnce(Counted):
    def step(self, *_: Any) -> Any:
        os._exit(0)


class Crashes(Counted):
    """A fault in native code."""

    def step(self, *_: Any) -> Any:
        return ctypes.string_at(0)


class ClosesFiles(Counted):
    """Closes every open file, the connection to Spark or to the worker among them."""

    def step(self, *given: Any) -> Any:
        os.closerange(0, 1000)
        return super().step(*given)


class HoldsTheLock(Counted):
    """Holds the interpreter's lock for ever: no other thread of its process runs again."""

    def step(self, *_: Any) -> Any:
        return ctypes.PyDLL(None).pause()


class LeavesAHog(Counted):
    """Answers, but leaves a thread behind that holds the interpreter's lock."""

    def step(self, *given: Any) -> Any:
        def hold() -> None:
            time.sleep(0.05)
            ctypes.PyDLL(None).pause()

        threading.Thread(target=hold, daemon=True).start()
        return super().step(*given)


class WritesGarbage(Counted):
    """Writes what is no message into every open file."""

    def step(self, *given: Any) -> Any:
        for number in range(3, 64):
            with contextlib.suppress(OSError):
                os.write(number, b"\xff" * 64)
        return super().step(*given)


class IgnoresSignals(Counted):
    """Cannot be interrupted or asked to end."""

    def step(self, *_: Any) -> Any:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(1)


class Leaks(Counted):
    """Takes memory step by step and keeps it."""

    kept: ClassVar[list[bytes]] = []

    def step(self, *given: Any) -> Any:
        for _ in range(200):
            self.kept.append(b"\1" * (64 << 20))
        return super().step(*given)


class Computes(Counted):
    """Takes a third of a second of CPU time and more."""

    def step(self, *given: Any) -> Any:
        began = time.process_time()
        while time.process_time() < began + 0.35:
            pass
        return super().step(*given)


# Only `isolate` contains these: the first end or spoil the process, the others hang it.
DEADLY = (KillsItself, ExitsAtOnce, Crashes, ClosesFiles, WritesGarbage, Leaks)
STUCK = (HoldsTheLock, LeavesAHog, IgnoresSignals)
FAILING = (
    RaisesOnOpen,
    ExitsOnStep,
    InterruptsOnStep,
    UnreadableOnStep,
    LongErrorOnStep,
    RecursesOnStep,
    NotATable,
    OtherColumns,
    DueRaises,
    DueExits,
    DueText,
    DueHuge,
)
HARMLESS = (DuePast, BadText)
HANGING = (DueSleeps, Sleeps)
