"""The parent of Spark's Python processes, with what they run already loaded.

Every process is a fork of it: it has our modules, Arrow, DuckDB and compiled kernels from the
start, and shares their memory, instead of loading them for some seconds. Spark starts this module
by its name (`spark.python.daemon.module`), where it is sure to be installed: see `session`.

Nothing is computed by threads here: those that libraries start when they are loaded (of allocators
and pools) are started again by them in a fork.
"""

import gc
import os

import numpy as np
import pyarrow as pa
import pyspark.worker  # noqa: F401 - for the forks
from pyspark.daemon import manager

import evenflow.spark.worker.spark_tasks  # noqa: F401 - for the forks
from evenflow.model import hash_keys


def preload() -> None:
    """Use once what would be loaded when it is first used."""
    hash_keys(pa.array([0]))
    hash_keys(pa.array(["a"]))
    pa.table({"a": [0]}).take([0])


if __name__ == "__main__":
    preload()
    os.register_at_fork(after_in_child=np.random.seed)  # or all would draw the same numbers
    gc.collect()
    gc.freeze()  # a fork's collector would copy what it touches: once in many tasks (`settle`)
    manager()
