"""The runtime on Spark: the only package that imports pyspark."""

from evenflow.spark.flow import Flow
from evenflow.spark.run import Run

__all__ = ["Flow", "Run"]
