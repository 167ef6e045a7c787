"""Your own streaming DataFrame in ten lines: `python examples/05_dataframe.py`."""

import sys
import tempfile

import evenflow
from evenflow.spark.session import open_session


def main(folder: str) -> None:
    """Count ticks of Spark's `rate` source by their last digit, per second."""
    spark = open_session("local[2,4]")
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
    flow = evenflow.Flow(spark, workers=4, checkpoint=folder)
    flow.source("ticks", ticks, time="timestamp", watermark="1 second")
    flow.query(
        "digits",
        """SELECT window.end AS at, value % 10 AS digit, count(*) AS n
        FROM ticks GROUP BY window(timestamp, '1 second'), value % 10""",
    )
    run = flow.start(trigger="1 second")
    run.await_results("digits", timeout=600)  # a window is emitted once the watermark is past it
    run.await_termination(float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    run.stop()
    print(run.results("digits", limit=20).to_pandas().to_string(index=False))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
