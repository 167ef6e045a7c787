"""Whether a run's results are those of Spark's batch SQL over the same files."""

from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from evenflow import Run

Check = Callable[[Run], int]
"""Gives how many rows of query q are equal, which is all of them; raises if any differs."""


def same_windows(spark: SparkSession, files: Path, sql: str) -> Check:
    """Compare counts row by row; the window of the last row stays open."""
    spark.read.parquet(str(files)).createOrReplaceTempView("trades")
    answer = spark.sql(sql)
    last = answer.agg(F.max("s")).collect()[0][0]
    closed = answer.where(F.col("s") < F.lit(last))
    expected = closed.count()

    def check(run: Run) -> int:
        found = run.results("q")
        _demand(expected, found.count())
        # Where there are as many rows on both sides, one way tells of the other.
        differing = found.exceptAll(closed).count()
        if differing:
            raise RuntimeError(f"{differing} rows of {expected} differ from Spark's")
        return expected

    return check


def same_pairs(spark: SparkSession, files: Path, sql: str) -> Check:
    """Compare a self-join, hundreds of millions of rows, by number and sums of hashes.

    Spark joins each file with itself and the next one, for no pair reaches further; over all files
    at once it would look at all pairs of a key and take many minutes.
    """
    paths = sorted(files.glob("*.parquet"))
    parts = []
    for at, path in enumerate(paths):
        spark.read.parquet(*map(str, paths[at : at + 2])).createOrReplaceTempView("trades")
        times = pc.min_max(pq.read_table(path, columns=["ts"])["ts"]).as_py()
        of_file = F.col("ts").between(F.lit(times["min"]), F.lit(times["max"]))
        parts.append(_sums(spark.sql(sql).where(of_file)))
    expected = tuple(map(sum, zip(*parts, strict=True)))

    def check(run: Run) -> int:
        found = _sums(run.results("q"))
        _demand(expected[0], found[0])
        if found != expected:
            raise RuntimeError(f"some of {found[0]} rows differ from Spark's")
        return found[0]

    return check


def _demand(expected: int, found: int) -> None:
    if not expected or found != expected:
        raise RuntimeError(f"{found} rows came out, Spark's batch SQL has {expected}")


def _sums(rows: DataFrame) -> tuple[int, ...]:
    """Give the number of rows and the sums of both halves of their hashes, which do not overflow.

    Sums, unlike xor, also tell rows that are there twice from rows that are not there.
    """
    halves = [
        f"coalesce(sum({half}), 0)" for half in ("shiftright(hash, 32)", "hash & 4294967295L")
    ]
    hashed = rows.selectExpr("xxhash64(*) AS hash")
    return tuple(map(int, hashed.selectExpr("count(*)", *halves).collect()[0]))
