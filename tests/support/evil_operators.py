"""Operators that misbehave wherever our code calls them; each must harm only itself."""

import sys
import time
from collections.abc import Mapping
from typing import Any

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
