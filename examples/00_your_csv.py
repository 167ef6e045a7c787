"""Your own CSV: `python examples/00_your_csv.py FILE KEY [TIME]`; without arguments, a small file.

Counts the rows of each key over time, on four workers that are kept evenly loaded.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

import evenflow
from evenflow.spark.session import open_session

BATCHES, WINDOWS = 10, 20
ROUND_SECONDS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800)


def read_rows(file: str, key: str, time_column: str | None) -> pa.Table:
    """Return key and time of each row, by time; without a time column, a row per second."""
    try:
        found = pyarrow.csv.read_csv(file)
    except (OSError, pa.ArrowException) as error:
        raise SystemExit(f"{file} cannot be read: {error}") from None
    for name in (key, time_column):
        if name and name not in found.column_names:
            raise SystemExit(f"{file} has no column {name}, only {', '.join(found.column_names)}")
    if not len(found):
        raise SystemExit(f"{file} has no rows")
    seconds = pa.array(range(len(found)), pa.int64())
    times = found[time_column] if time_column else pc.cast(seconds, pa.timestamp("s"))
    try:
        if pa.types.is_integer(times.type) and time_column:
            times = pc.cast(times, pa.timestamp("s"))  # seconds since 1970
        times = pc.cast(times, pa.timestamp("us", "UTC"))
    except pa.ArrowException:
        raise SystemExit(
            f"column {time_column} is no time: its first value is {times[0]}; expected "
            "2026-01-31 12:00:00 or seconds since 1970"
        ) from None
    rows = pa.table({"key": pc.cast(found[key], pa.string()), "ts": times})
    return rows.filter(pc.is_valid(rows["ts"])).sort_by("ts")


def main(folder: Path, file: str, key: str, time_column: str | None = None) -> None:
    """Stream the rows of a CSV file in ten batches; print the counts and the heaviest keys."""
    rows = read_rows(file, key, time_column)
    span = pc.subtract(pc.max(rows["ts"]), pc.min(rows["ts"])).cast(pa.int64()).as_py() / 1e6
    wanted = span / WINDOWS  # many windows end before the last row
    window = max((each for each in ROUND_SECONDS if each <= wanted), default=1)
    size, begin = -(-len(rows) // BATCHES), time.time() - BATCHES
    (folder / "rows").mkdir()
    for batch in range(BATCHES):
        part = folder / "rows" / f"{batch:02d}.parquet"
        pyarrow.parquet.write_table(rows.slice(batch * size, size), part)
        os.utime(part, (begin + batch, begin + batch))  # Spark reads files by age
    print(f"{len(rows):,} rows in {BATCHES} batches; starting Spark", file=sys.stderr, flush=True)
    spark = open_session("local[2,4]")
    stream = spark.readStream.schema("key STRING, ts TIMESTAMP")
    flow = evenflow.Flow(spark, workers=4, checkpoint=str(folder / "checkpoint"))
    flow.source(
        "rows",
        stream.option("maxFilesPerTrigger", 1).parquet(str(folder / "rows")),
        time="ts",
        watermark="0 seconds",
        max_ahead=None,
    )
    flow.query(
        "counts",
        f"""SELECT window.start AS since, key, count(*) AS n
        FROM rows GROUP BY window(ts, '{window} seconds'), key""",  # noqa: S608 - a number
        key="key",
    )
    run = flow.start(available_now=True, balancing=evenflow.Balancing())
    while not run.await_termination(10):
        print(f"{run.committed} batches are done", file=sys.stderr, flush=True)
    counts = run.results("counts").to_pandas()
    if not len(counts):
        raise SystemExit(f"no window of {window} s has ended in {len(rows)} rows over {span} s")
    print(f"{len(rows):,} rows, {len(counts):,} counts per key and {window} s; the largest:")
    print(counts.nlargest(10, "n")[["since", "key", "n"]].to_string(index=False))
    print_keys(rows, {hot.name: hot for hot in run.hot_keys("counts", 100)})


def print_keys(rows: pa.Table, hot: dict[str, Any]) -> None:
    """Print the keys with the most rows, what they cost, and where they are."""
    print("\nkeys with the most rows:")
    for found in rows["key"].value_counts().sort(by="counts", order="descending")[:5].to_pylist():
        key, share = found["values"], found["counts"] / len(rows)
        cost = "less work than 100 others"
        if key in hot:
            owners = ", ".join(map(str, hot[key].owners))
            cost = f"{hot[key].share:.1%} of the work, worker {owners}"
        print(f"  {key}: {share:.1%} of the rows, {cost}")
    print("Rows are summed up before they are sent, so a key with many rows costs little.")


if __name__ == "__main__":
    given = sys.argv[1:] or [str(Path(__file__).with_name("skewed_keys.csv")), "key"]
    if len(given) not in (2, 3):
        raise SystemExit("usage: python examples/00_your_csv.py FILE KEY [TIME]")
    with tempfile.TemporaryDirectory() as place:
        main(Path(place), *given)
