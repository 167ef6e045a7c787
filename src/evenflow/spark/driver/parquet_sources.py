"""Which sources are nothing but Parquet files: the router reads those itself (`parquet_files`)."""

import re
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from evenflow.spark.worker.parquet_files import FILE_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# They choose files, not how rows are read.
_FILE_OPTIONS = frozenset(
    [
        "path",
        "maxfilespertrigger",
        "maxbytespertrigger",
        "maxcachedfiles",
        "latestfirst",
        "maxfileage",
        "filenameonly",
        "pathglobfilter",
        "recursivefilelookup",
        "cleansource",
        "sourcearchivedir",
    ]
)
# Settings that change the values Spark reads; a session that sets one reads the files itself.
_READ_SETTINGS = {
    "spark.sql.parquet.datetimeRebaseModeInRead": ("EXCEPTION", "CORRECTED"),
    "spark.sql.parquet.fieldId.read.enabled": ("false",),
    "spark.sql.caseSensitive": ("false",),
}
_REFUSED = re.compile(r"SparkMustReadError: stream (\S+): ([^\n]+)")


def reads_parquet_files(spark: "SparkSession", frame: "DataFrame") -> bool:
    """Tell whether a source is local Parquet files, perhaps with fewer columns, and no more."""
    try:
        return _is_plain(frame._jdf.queryExecution().analyzed()) and all(
            str(spark.conf.get(name)) in values for name, values in _READ_SETTINGS.items()
        )
    except Exception:  # py4j raises whatever it likes if another Spark has other names
        return False


def _is_plain(plan: Any) -> bool:
    while plan.nodeName() == "Project":
        columns = plan.projectList()
        classes = {columns.apply(at).getClass().getSimpleName() for at in range(columns.size())}
        if classes != {"AttributeReference"}:
            return False
        plan = plan.child()
    if plan.nodeName() != "StreamingRelation":
        return False
    source = plan.dataSource()
    options = source.options().keysIterator()
    names = set()
    while options.hasNext():
        names.add(str(options.next()).lower())
    return (
        source.className().lower() == "parquet"
        and names <= _FILE_OPTIONS
        and source.partitionColumns().isEmpty()
    )


def file_names(frame: "DataFrame") -> "DataFrame":
    """Return the names of a source's files; Spark decodes no column for it."""
    first_rows = frame.where("_metadata.row_index = 0")
    return first_rows.select(F.input_file_name().alias(FILE_COLUMN))


def source_for_spark(error: BaseException) -> tuple[str, str] | None:
    """Return the source that Spark must read itself, and why, if that stopped its query.

    >>> source_for_spark(Exception("... SparkMustReadError: stream bids: f: it is cut\\n at ..."))
    ('bids', 'f: it is cut')
    """
    found = _REFUSED.search(str(error))
    return None if found is None else (found[1], found[2])
