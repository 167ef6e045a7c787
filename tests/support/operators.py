"""Python operators: counts of rows, sessions that can be split, and some that misbehave."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.sql import Operator

COUNTS = pa.schema([("symbol", pa.string()), ("n", pa.int64())])


class Counter(Operator):
    schema = COUNTS
    state = COUNTS

    def step(
        self, rows: Mapping[str, pa.Table], state: pa.Table, watermark_us: int
    ) -> tuple[pa.Table, pa.Table]:
        seen = rows["trades"].select(["symbol"])
        new = seen.append_column("n", pa.array([1] * len(seen), pa.int64())).cast(COUNTS)
        summed = pa.concat_tables([state, new]).group_by("symbol").aggregate([("n", "sum")])
        after = pa.table([summed["symbol"], summed["n_sum"]], schema=COUNTS)
        changed = pc.is_in(after["symbol"], value_set=seen["symbol"].combine_chunks())
        return after.filter(changed), after


_SESSION = [(name, pa.int64()) for name in ("begin", "end", "n", "total")]


class Sessions(Operator):
    """Rows of a key without a gap of 3 s, told when they end; rows with every tenth value at once.

    It declares `merge`: parts of a session that were seen apart become one.
    """

    GAP_US: ClassVar[int] = 3_000_000
    COLUMNS: ClassVar[tuple[str, str, str]] = ("k", "ts", "x")
    schema = state = pa.schema([("k", pa.string()), *_SESSION])

    def step(
        self, rows: Mapping[str, pa.Table], state: pa.Table, watermark_us: int
    ) -> tuple[pa.Table, pa.Table]:
        (new,) = rows.values()
        keys, times, values = (new.column(name) for name in self.COLUMNS)
        begins, ones = times.cast(pa.int64()), pa.array([1] * len(new), pa.int64())
        single = pa.table([keys, begins, begins, ones, values], schema=self.schema)
        told = single.filter(pa.array(values.to_numpy() % 10 == 0))
        after = self.merge(state, single)
        ended = pc.less_equal(pc.add(after["end"], self.GAP_US), watermark_us)
        return pa.concat_tables([told, after.filter(ended)]), after.filter(pc.invert(ended))

    def merge(self, state: pa.Table, part: pa.Table) -> pa.Table:
        key, sessions = self.COLUMNS[0], list[dict[str, Any]]()
        found = pa.concat_tables([state, part]).sort_by(
            [(key, "ascending"), ("begin", "ascending")]
        )
        for row in found.to_pylist():
            last = sessions[-1] if sessions else None
            if last and last[key] == row[key] and row["begin"] < last["end"] + self.GAP_US:
                last["end"] = max(last["end"], row["end"])
                last["n"] += row["n"]
                last["total"] += row["total"]
            else:
                sessions.append(row)
        return pa.Table.from_pylist(sessions, schema=self.state)

    def next_due_us(self, state: pa.Table) -> int | None:
        end: int | None = pc.min(state["end"]).as_py()
        return None if end is None else end + self.GAP_US


class TradeSessions(Sessions):
    """Sessions of trades by symbol."""

    COLUMNS = ("symbol", "ts", "qty")
    schema = state = pa.schema([("symbol", pa.string()), *_SESSION])


class Total(Operator):
    """Counts all rows: a whole operator, whose state is one row."""

    schema = pa.schema([("n", pa.int64())])
    state = pa.schema([("n", pa.int64())])

    def step(
        self, rows: Mapping[str, pa.Table], state: pa.Table, watermark_us: int
    ) -> tuple[pa.Table, pa.Table]:
        after = pa.table({"n": [sum(state["n"].to_pylist()) + len(rows["trades"])]})
        return after, after


class Held(Total):
    """Counts rows, but waits in its step for a file `go` in the folder that a row's symbol names.

    It writes a file with the number of its process, so that a test can kill it meanwhile.
    """

    def step(
        self, rows: Mapping[str, pa.Table], state: pa.Table, watermark_us: int
    ) -> tuple[pa.Table, pa.Table]:
        for name in set(rows["trades"]["symbol"].to_pylist()):
            if name is not None and name.startswith("/"):
                (Path(name) / f"pid-{os.getpid()}").touch()
                while not (Path(name) / "go").exists():
                    time.sleep(0.01)
        return super().step(rows, state, watermark_us)


class Deadly(Total):
    """Ends its process, as a fault in native code does."""

    def step(
        self, rows: Mapping[str, pa.Table], state: pa.Table, watermark_us: int
    ) -> tuple[pa.Table, pa.Table]:
        os.kill(os.getpid(), signal.SIGSEGV)
        return super().step(rows, state, watermark_us)


class Greedy(Total):
    """Counts rows, and takes memory until the kernel kills its process, the first time only.

    A row's symbol names a folder; the file `oom` there has the control group to run out of memory
    in. Without one, it kills itself as the kernel would.
    """

    def step(
        self, rows: Mapping[str, pa.Table], state: pa.Table, watermark_us: int
    ) -> tuple[pa.Table, pa.Table]:
        for name in set(rows["trades"]["symbol"].to_pylist()):
            if name is not None and name.startswith("/") and not (Path(name) / "killed").exists():
                (Path(name) / "killed").touch()
                group = (Path(name) / "oom").read_text()
                if not group:
                    os.kill(os.getpid(), signal.SIGKILL)
                (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
                taken = [b"\1" * (64 << 20) for _ in range(64)]
                raise AssertionError(f"{len(taken)} times 64 MB were not too much")
        return super().step(rows, state, watermark_us)
