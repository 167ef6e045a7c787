"""The parent of Spark's Python processes, with everything they need already loaded.

Each process is a fork of it: our modules, Arrow, DuckDB and compiled kernels are there from the
start and share memory, instead of taking seconds to load. Spark starts this module by its name
(`spark.python.daemon.module`), so it must be installed where Spark runs: see `session`.

Do not start threads here: they do not survive a fork. Libraries restart their own.
"""

import gc
import os
import socket

import numpy as np
import pyarrow as pa
import pyspark.daemon
import pyspark.worker

import evenflow.spark.worker.spark_tasks
import evenflow.spark.worker.sql_runtime  # noqa: F401 - for the forks
from evenflow.model import hash_keys


def preload() -> None:
    """Use everything once that would otherwise load on first use."""
    hash_keys(pa.array([0]))
    hash_keys(pa.array(["a"]))
    pa.table({"a": [0]}).take([0])


_serve_tasks = pyspark.daemon.worker


def serve_tasks(sock: socket.socket, authenticated: bool) -> int:
    """Serve tasks as Spark does, without a traceback if Spark has closed the connection.

    Spark closes it when a task is cancelled or the session ends; it reports real failures itself.
    """
    try:
        return int(_serve_tasks(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return 1


if __name__ == "__main__":
    preload()
    os.register_at_fork(after_in_child=np.random.seed)  # else all forks draw the same numbers
    gc.collect()
    gc.freeze()  # a fork's collector would copy the pages it touches; see `freeze_heap`
    pyspark.daemon.worker = serve_tasks
    pyspark.daemon.manager()
