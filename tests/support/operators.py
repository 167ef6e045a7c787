"""A Python operator that counts rows by symbol: each batch it gives the counts that changed."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

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
