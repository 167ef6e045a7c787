"""How long hostile submissions delay batches: `python -m benchmarks.runtime.submissions`.

A flow without Spark runs batches while 16 texts are submitted that are refused or dear to compile.
Side `locked` compiles them in the driver while it holds the lock of commits; side `apart` is the
product: a process with limits, without the lock. Sides take turns. Prints JSON: milliseconds that a
batch waits for the lock (the delay), and the wall time of the batches.
"""

import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from tests.support.hostile_sql import column, nest, repeated
from tests.support.local_runtime import Local
from tests.support.spark_harness import cut, trades
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.errors import InputError
from evenflow.spark.driver.submission import Submission

TEXTS = (
    f"SELECT ts, {repeated('price + {n} AS c{n}', 600)} FROM trades",
    column(nest("CASE WHEN {} BETWEEN 1 AND 2 THEN 1 ELSE 2 END", 12)),
    "SELECT " + repeated("sum(qty + {n}) AS c{n}", 300)
    + " FROM trades GROUP BY window(ts, '1 second')",
    column("1", f"WHERE qty IN ({repeated('{n}', 3000)})"),
)  # fmt: skip
TURNS = ("locked", "apart", "apart", "locked", "locked", "apart", "apart", "locked")


class TimedLock:
    """A lock that notes how long the thread of batches waits for it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.batches = threading.get_ident()
        self.waits: list[float] = []

    def __enter__(self) -> None:
        begin = time.perf_counter()
        self._lock.acquire()
        if threading.get_ident() == self.batches:
            self.waits.append(time.perf_counter() - begin)

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@contextmanager
def submitting(local: Local, side: str) -> Iterator[threading.Thread]:
    def submit() -> None:
        commands = local.committer.commands
        for at in range(16):
            submission = Submission("query", f"h{at}", TEXTS[at % len(TEXTS)])
            try:
                if side == "apart":
                    commands.preview(submission, commands.compile(submission))
                else:
                    with commands.lock:
                        submission.apply(*commands.next_registry_and_plan())
            except InputError:
                continue

    thread = threading.Thread(target=submit)
    thread.start()
    yield thread
    thread.join()


def measure(side: str) -> dict[str, float]:
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        local = Local(folder, STREAMS, SUBMISSIONS[:3], workers=2)
        lock = TimedLock()
        local.committer.commands.lock = lock  # type: ignore[assignment]
        batches = cut(rng, trades(rng, 20_000), 400)
        times: list[float] = []
        with submitting(local, side) as thread:
            for rows in batches:
                begin = time.perf_counter()
                local.batch({"trades": rows})
                times.append(time.perf_counter() - begin)
                if not thread.is_alive():
                    break
        local.committer.checkpoint.close()
    return {
        "batches": len(times),
        "wait max": 1000 * max(lock.waits),
        "batch median": 1000 * statistics.median(times),
        "batch max": 1000 * max(times),
    }


def main() -> None:
    from evenflow.sql import Catalog, Stream
    from evenflow.sql.compile_process import COMPILE_PROCESS
    from evenflow.sql.compile_server import CompileRequest

    schema = STREAMS["trades"].schema
    COMPILE_PROCESS.compile(
        CompileRequest(
            "query", "q", "SELECT * FROM trades", Catalog({"trades": Stream(schema, "ts")})
        )
    )
    runs: dict[str, list[dict[str, float]]] = {"locked": [], "apart": []}
    for side in TURNS:
        runs[side].append(measure(side))
    result = {
        side: {name: round(statistics.median(r[name] for r in several), 1) for name in several[0]}
        | {"worst wait": round(max(r["wait max"] for r in several), 1)}
        for side, several in runs.items()
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
