"""The parent of Spark's Python processes, with what they run already imported.

Every process is a fork of it: it then has our modules, DuckDB and Arrow from the start, and shares
their memory, instead of importing them for some seconds each. Spark starts this file by its name
(`spark.python.daemon.module`) where it must be there: on the driver's own machine.
"""

import gc

from pyspark.daemon import manager

import evenflow.spark.tasks  # noqa: F401 - for the forks

if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # so that no fork's collector touches, and so copies, what all share
    manager()
