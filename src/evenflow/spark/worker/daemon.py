"""The parent of Spark's Python processes, with everything they need already loaded.

Each process is a fork of it: our modules, Arrow, DuckDB and compiled kernels are there from the
start and share memory, instead of taking seconds to load. Spark starts this module by its name
(`spark.python.daemon.module`), so it must be installed where Spark runs: see `session`.

Do not start threads here: they do not survive a fork. Libraries restart their own.
"""

import gc
import os

import numpy as np
import pyarrow as pa
import pyspark.worker  # noqa: F401 - for the forks
from pyspark.daemon import manager

import evenflow.spark.worker.spark_tasks
import evenflow.spark.worker.sql_runtime  # noqa: F401 - for the forks
from evenflow.model import hash_keys


def preload() -> None:
    """Use everything once that would otherwise load on first use."""
    hash_keys(pa.array([0]))
    hash_keys(pa.array(["a"]))
    pa.table({"a": [0]}).take([0])


if __name__ == "__main__":
    preload()
    os.register_at_fork(after_in_child=np.random.seed)  # else all forks draw the same numbers
    gc.collect()
    gc.freeze()  # a fork's collector would copy the pages it touches; see `freeze_heap`
    manager()
