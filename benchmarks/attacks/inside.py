"""Attacks from inside on real Spark, one after the other, beside an innocent query.

    python -m benchmarks.attacks.inside [--attacks N] [--minutes N] [--json]

SQL of the hostile corpus, evil operators, rows with wrong times and values, and damaged files. Each
attack lasts two batches. The table has the outcome of each and the slowest batch meanwhile; at the
end the innocent query's results must equal Spark's batch SQL. With `--minutes` the attacks are
repeated, and memory and number of files are sampled: both should stay flat.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema
from tests.support import evil_operators
from tests.support.hostile_rows import hostile_rows
from tests.support.hostile_sql import CASES, SCHEMA
from tests.support.poll import until
from tests.support.spark_harness import BEGIN_US, SECOND, rows_of

from benchmarks.process_stats import current_mb
from evenflow.errors import InputError
from evenflow.spark.flow import Flow
from evenflow.spark.run import Run
from evenflow.spark.session import open_session
from evenflow.sql import Operator

INNOCENT = """SELECT window.start AS s, symbol, count(*) AS n, sum(small) AS t FROM trades
    WHERE small BETWEEN 0 AND 1 GROUP BY window(ts, '10 seconds'), symbol"""
QUIET_BATCHES = 8


@dataclass
class Outcome:
    """What an attack led to, and the slowest batch meanwhile."""

    attack: str
    kind: str
    outcome: str
    seconds: float


class World:
    """A run with one innocent query, and a folder that gets a file of rows for every batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "trades"
        self.folder.mkdir()
        self.spark = open_session("local[2,4]", {}, folder / "spark.log")
        flow = Flow(self.spark, workers=2, checkpoint=str(folder / "checkpoint"))
        reader = self.spark.readStream.schema(from_arrow_schema(SCHEMA))
        frame = reader.option("maxFilesPerTrigger", 4).parquet(str(self.folder))
        flow.source("trades", frame, time="ts", watermark="5 seconds", on_bad_file="skip")
        flow.query("innocent", INNOCENT, key="symbol")
        self.good: list[pa.Table] = []
        self.files = 0
        self.send()
        self.run: Run = flow.start(trigger="1 second")

    def send(self, rows: pa.Table | None = None, content: bytes | None = None) -> None:
        """Write a file: rows that count, if none are given."""
        path = self.folder / f"{self.files:06d}.parquet"
        if rows is None and content is None:
            rows = hostile_rows(self.files, 50, 4 * len(self.good), 4)
            self.good.append(rows)
        if content is None:
            pq.write_table(rows, self.folder / ".new")
        else:
            (self.folder / ".new").write_bytes(content)
        (self.folder / ".new").rename(path)
        self.files += 1

    def send_bad(
        self, rows: pa.Table | None = None, content: bytes | None = None, outcome: str = ""
    ) -> str:
        """Write a bad file; return what should become of it."""
        self.send(rows, content)
        return outcome

    def batches(self, count: int) -> float:
        """Send rows and wait for some batches; return the seconds of the slowest."""
        first = self.run.committed
        for number in range(count):
            self.send()
            until(partial(self._has_committed, first + number), self.run, 300)
        return max(batch.seconds for batch in self.run.batches if batch.number >= first)

    def _has_committed(self, batch: int) -> bool:
        return any(completed.number >= batch for completed in self.run.batches)

    def check(self) -> bool:
        """Close all windows, and compare with Spark's batch SQL."""
        times = pa.array([BEGIN_US + 30 * 86_400 * SECOND]).cast(SCHEMA.field("ts").type)
        self.send(hostile_rows(0, 1).set_column(0, "ts", times))
        good = pa.concat_tables(self.good).select(["ts", "symbol", "small"])
        frame = self.spark.createDataFrame(good)
        frame.createOrReplaceTempView("trades")
        expected = rows_of(self.spark.sql(INNOCENT))
        try:
            until(lambda: rows_of(self.run.results("innocent")) == expected, self.run, 120)
        except TimeoutError:
            return False
        return True


Attack = tuple[str, str, Callable[[World], str]]


def attacks() -> Iterator[Attack]:
    """Yield the attacks, kinds mixed."""
    yield from itertools.chain.from_iterable(
        itertools.zip_longest(sql_attacks(), operator_attacks(), input_attacks())
    )


def sql_attacks() -> Iterator[Attack]:
    accepted = [case for case in CASES if case.accepted]
    refused = [case for case in CASES if not case.accepted]
    for case in (*accepted[::2], *refused[::6]):

        def act(world: World, sql: str = case.sql, template: bool = case.is_template) -> str:
            host = world.run.submit_template if template else world.run.submit
            try:
                host("hostile", sql)
            except InputError:
                return "refused"
            return ""

        yield case.name, "SQL", act


def operator_attacks() -> Iterator[Attack]:
    kinds = evil_operators
    for kind in (*kinds.FAILING, *kinds.HARMLESS, *kinds.HANGING):

        def act(world: World, kind: type[Operator] = kind) -> str:
            world.run.submit_operator("hostile", kind, "trades")
            return ""

        yield kind.__name__, "operator", act


def input_attacks() -> Iterator[Attack]:
    day, row = 86_400 * SECOND, hostile_rows(1, 1)

    def at(time_us: int | None) -> pa.Table:
        times = pa.array([time_us], pa.int64()).cast(SCHEMA.field("ts").type)
        return row.set_column(0, "ts", times)

    note, small = (SCHEMA.get_field_index(name) for name in ("note", "small"))
    rows = {
        "row two days ahead": at(int(time.time()) * SECOND + 2 * day),
        "row of 2199": at(7_226_582_400 * SECOND),
        "row of 1899": at(-2_210_000_000 * SECOND),
        "row of year 9999": at(253_402_300_000 * SECOND),
        "row without a time": at(None),
        "text of 8 MB without a time": at(None).set_column(
            note, "note", pa.array(["x" * 8_000_000])
        ),
    }
    for name, table in rows.items():
        yield name, "row", partial(World.send_bad, rows=table, outcome="set aside")
    retyped = row.set_column(small, "small", pa.array(["many"]))
    yield "file of other types", "file", partial(World.send_bad, rows=retyped, outcome="left out")
    contents = {"file of garbage": os.urandom(1000), "empty file": b"", "cut file": b"PAR1x"}
    for name, content in contents.items():
        yield name, "file", partial(World.send_bad, content=content, outcome="left out")


def run_attack(world: World, attack: Attack) -> Outcome:
    """Attack, let two batches pass, and clean up."""
    name, kind, act = attack
    done = act(world)
    seconds = world.batches(2)
    if not done:
        reason = world.run.quarantined.get("hostile")
        done = "runs" if reason is None else f"quarantined: {reason[:60]}"
    if "hostile" in world.run.queries:
        world.run.cancel("hostile")
        until(lambda: "hostile" not in world.run.queries, world.run, 120)
    return Outcome(name, kind, done, round(seconds, 2))


def sample(world: World, folder: Path) -> dict[str, float]:
    """Return memory and number of files now."""
    files = sum(1 for path in (folder / "checkpoint").rglob("*") if path.is_file())
    return {"batches": world.run.committed, "files": files, **current_mb()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Attack a run from inside.")
    parser.add_argument("--attacks", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    samples: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as name:
        world = World(Path(name))
        world.batches(2)  # cold
        quiet = [world.batches(1) for _ in range(QUIET_BATCHES)]
        median = statistics.median(quiet)
        until_time = time.monotonic() + 60 * options.minutes
        while True:
            for attack in itertools.islice(filter(None, attacks()), options.attacks):
                samples.append(sample(world, Path(name)))
                outcomes.append(run_attack(world, attack))
                print(outcomes[-1], file=sys.stderr, flush=True)
                if options.minutes and time.monotonic() > until_time:
                    break
            if time.monotonic() > until_time:
                break
        samples.append(sample(world, Path(name)))
        equal = world.check()
        skipped, aside = len(world.run.bad_files), world.run.set_aside.get("trades", 0)
        world.run.stop()
        world.spark.stop()
    slow = [o.attack for o in outcomes if o.seconds > 2 * median + 1]
    summary = {
        "attacks": len(outcomes),
        "innocent_equals_batch_sql": equal,
        "quiet_batch_seconds": round(median, 2),
        "slower_than_2_medians_plus_1s": slow,
        "files_left_out": skipped,
        "rows_set_aside": aside,
        "first_sample": samples[0],
        "middle_sample": samples[len(samples) // 2],
        "last_sample": samples[-1],
    }
    if options.json:
        print(json.dumps({"outcomes": [asdict(o) for o in outcomes], **summary}))
        return
    print("| attack | kind | outcome | slowest batch, s |\n|---|---|---|---:|")
    for o in outcomes:
        print(f"| {o.attack} | {o.kind} | {o.outcome} | {o.seconds} |")
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
