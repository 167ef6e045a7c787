"""Results of a query as a DataFrame that this process can also read by itself."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame as AnyFrame
from pyspark.sql.classic.dataframe import DataFrame


class ResultFrame(DataFrame):
    """A DataFrame of results; `to_arrow` and `to_pandas` read the files here, without a Spark job.

    What you derive from it (`where`, `select`, ...) is an ordinary DataFrame.
    """

    def __init__(self, frame: AnyFrame, read: Callable[[], pa.Table]) -> None:
        super().__init__(frame._jdf, frame.sparkSession)
        self._read = read

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return self._read()

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        return self._read().to_pandas()
