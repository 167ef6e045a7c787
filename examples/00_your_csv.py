"""Your own CSV: `python examples/00_your_csv.py FILE KEY [TIME]`; without arguments, a small file.

Counts the rows of each key over time, on four workers that are kept evenly loaded.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

import evenflow
from evenflow.spark.session import open_session

BATCHES, WINDOWS = 10, 20


def read_rows(file: str, key: str, time_column: str | None) -> pa.Table:
    """Return key and time of each row, by time; without a time column, a row per second."""
    found = pyarrow.csv.read_csv(file)
    missing = [name for name in (key, time_column) if name and name not in found.column_names]
    if missing or not len(found):
        raise SystemExit(f"{file} has {len(found)} rows with {', '.join(found.column_names)}")
    seconds = pa.array(range(len(found)), pa.int64())
    times = found[time_column] if time_column else pc.cast(seconds, pa.timestamp("s"))
    try:
        times = pc.cast(times, pa.timestamp("us", "UTC"))
    except pa.ArrowException as error:
        raise SystemExit(f"column {time_column} is not a time: {error}") from None
    rows = pa.table({"key": pc.cast(found[key], pa.string()), "ts": times})
    return rows.filter(pc.is_valid(rows["ts"])).sort_by("ts")


def main(folder: Path, file: str, key: str, time_column: str | None = None) -> None:
    """Stream the rows of a CSV file in ten batches; print the counts and the heaviest keys."""
    rows = read_rows(file, key, time_column)
    span = pc.subtract(pc.max(rows["ts"]), pc.min(rows["ts"])).cast(pa.int64()).as_py() / 1e6
    window = max(int(span / WINDOWS), 1)  # many windows end before the last row
    size, begin = -(-len(rows) // BATCHES), time.time() - BATCHES
    (folder / "rows").mkdir()
    for batch in range(BATCHES):
        part = folder / "rows" / f"{batch:02d}.parquet"
        pyarrow.parquet.write_table(rows.slice(batch * size, size), part)
        os.utime(part, (begin + batch, begin + batch))  # Spark reads files by age
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
    run.await_termination()
    counts = run.results("counts").to_pandas()
    if not len(counts):
        raise SystemExit(f"no window of {window} s has ended in {len(rows)} rows over {span} s")
    print(f"{len(rows):,} rows, {len(counts):,} counts per key and {window} s; the largest:")
    print(counts.nlargest(10, "n")[["since", "key", "n"]].to_string(index=False))
    print("\nheaviest keys and their workers:")
    for hot in run.hot_keys("counts", 5):
        print(
            f"  {hot.name}: {hot.share:.1%} of the work, worker {', '.join(map(str, hot.owners))}"
        )


if __name__ == "__main__":
    given = sys.argv[1:] or [str(Path(__file__).with_name("skewed_keys.csv")), "key"]
    if len(given) not in (2, 3):
        raise SystemExit("usage: python examples/00_your_csv.py FILE KEY [TIME]")
    with tempfile.TemporaryDirectory() as place:
        main(Path(place), *given)
