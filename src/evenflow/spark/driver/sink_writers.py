"""Write a delivery to a sink: one function per format.

| format                 | delivery repeated after a crash                                         |
|------------------------|-------------------------------------------------------------------------|
| parquet, orc, json ... | overwrites its folder per batch: each row once                          |
| delta                  | is skipped by its transaction number: each row once                     |
| iceberg                | is skipped by a property of its snapshot: each row once                 |
| jdbc                   | replaces the rows of its batches in one transaction: each row once      |
|                        | (in update mode: the rows of its keys)                                  |
| kafka                  | appends again; the header `evenflow-batch` tells repetitions apart      |
| others, foreach_batch  | appends again: at least once                                            |
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evenflow.errors import InputError
from evenflow.spark.driver.sink_target import BATCH_COLUMN, Delivery, SinkTarget
from evenflow.spec import files
from evenflow.spec.files import spark_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ICEBERG_PROPERTY = "evenflow-delivery"
_KAFKA_VALUE = "to_json(struct(*)) AS value"
_KAFKA_HEADERS = (
    f"array(named_struct('key', 'evenflow-batch', 'value', "
    f"CAST(CAST({BATCH_COLUMN} AS STRING) AS BINARY))) AS headers"
)


def write_delivery(frame: "DataFrame", target: SinkTarget, delivery: Delivery) -> None:
    """Write results, which have a column `batch`, as the format of the sink asks."""
    if target.function is not None:
        target.function(frame, delivery)
    elif target.spec.format in files.FILE_FORMATS and target.table is None:
        _write_files(frame, target)
    else:
        _WRITERS.get(target.spec.format, _append)(frame, target, delivery)


def selected(frame: "DataFrame", target: SinkTarget) -> "DataFrame":
    """Return the columns that a sink gets, without the batch."""
    rows = frame.drop(BATCH_COLUMN)
    return rows.selectExpr(*target.spec.select) if target.spec.select else rows


def _write_files(frame: "DataFrame", target: SinkTarget) -> None:
    kept = [*target.spec.select, BATCH_COLUMN] if target.spec.select else ["*"]
    writer = frame.selectExpr(*kept).write.format(target.spec.format)
    writer = writer.options(**spark_options(target.spec.options))
    writer = writer.option("partitionOverwriteMode", "dynamic").partitionBy(BATCH_COLUMN)
    writer.mode("overwrite").save(target.path)


def _append(frame: "DataFrame", target: SinkTarget, _: Delivery) -> None:
    _save(selected(frame, target), target)


def _save(rows: "DataFrame", target: SinkTarget, **options: str | int) -> None:
    writer = rows.write.format(target.spec.format).mode("append")
    writer = writer.options(**spark_options(target.spec.options), **options)
    if target.table is not None:
        writer.saveAsTable(target.table)
    else:
        writer.save(target.path)


def _write_delta(frame: "DataFrame", target: SinkTarget, delivery: Delivery) -> None:
    rows = selected(frame, target)
    if _has_format(frame.sparkSession, "delta"):
        _save(rows, target, txnAppId=delivery.writer, txnVersion=delivery.until)
    elif target.path is not None:
        _write_delta_files(rows, target, delivery)
    else:
        raise InputError(
            f"table {target.table!r} needs Delta's connector for Spark (the package "
            "io.delta:delta-spark in `spark.jars.packages`); without it give a `path`"
        )


def _write_delta_files(rows: "DataFrame", target: SinkTarget, delivery: Delivery) -> None:
    """Write a Delta table without Delta's connector for Spark, from the driver."""
    try:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    except ImportError:
        raise InputError(
            "the format delta needs Delta's connector for Spark (the package io.delta:delta-spark "
            "in `spark.jars.packages`) or the Python package deltalake (pip install "
            "'evenflow[delta]')"
        ) from None
    path, options = str(target.path), spark_options(target.spec.options)
    if DeltaTable.is_deltatable(path, options):
        written = DeltaTable(path, storage_options=options).transaction_version(delivery.writer)
        if written is not None and written >= delivery.until:
            return
    transaction = Transaction(delivery.writer, delivery.until)
    write_deltalake(
        path,
        rows.toArrow(),
        mode="append",
        storage_options=options,
        commit_properties=CommitProperties(app_transactions=[transaction]),
    )


def _write_iceberg(frame: "DataFrame", target: SinkTarget, delivery: Delivery) -> None:
    spark, table = frame.sparkSession, str(target.table)
    mark = f"{delivery.writer}:{delivery.until}"
    exists = spark.catalog.tableExists(table)
    if exists and delivery.is_repeated:
        snapshots = spark.table(f"{table}.snapshots").selectExpr(
            f"summary['{_ICEBERG_PROPERTY}'] AS mark"
        )
        if not snapshots.where(snapshots.mark == mark).isEmpty():
            return
    writer = selected(frame, target).writeTo(table).options(**spark_options(target.spec.options))
    writer = writer.option(f"snapshot-property.{_ICEBERG_PROPERTY}", mark)
    if exists:
        writer.append()
    else:
        writer.using("iceberg").create()


def _write_kafka(frame: "DataFrame", target: SinkTarget, _: Delivery) -> None:
    rows = frame.selectExpr(*(target.spec.select or (_KAFKA_VALUE,)), _KAFKA_HEADERS)
    options = spark_options(target.spec.options)
    rows.write.format("kafka").options(**options, includeHeaders=True).save()


def _write_jdbc(frame: "DataFrame", target: SinkTarget, _: Delivery) -> None:
    """Write to a staging table, then replace the rows of its batches in one transaction."""
    kept = [*target.spec.select, BATCH_COLUMN] if target.spec.select else ["*"]
    rows, table = _last_versions(frame, target).selectExpr(*kept), str(target.table)
    staging = f"{table}_staging"
    options = {**spark_options(target.spec.options), "dbtable": staging}
    rows.write.format("jdbc").options(**options).mode("overwrite").save()
    columns = ", ".join(f'"{name}"' for name in rows.columns)
    replaced = f'"{BATCH_COLUMN}" IN (SELECT "{BATCH_COLUMN}" FROM {staging})'  # noqa: S608
    if target.upsert_key is not None:
        names = [f'"{name}"' for name in target.upsert_key]
        is_same = " AND ".join(
            f"({table}.{n} = s.{n} OR ({table}.{n} IS NULL AND s.{n} IS NULL))" for n in names
        )
        replaced = f"EXISTS (SELECT 1 FROM {staging} s WHERE {is_same or '1 = 1'})"  # noqa: S608
    _in_one_transaction(
        frame.sparkSession,
        options,
        f"CREATE TABLE IF NOT EXISTS {table} AS SELECT * FROM {staging} WHERE 1 = 0",  # noqa: S608 - the user's own table
        f"DELETE FROM {table} WHERE {replaced}",  # noqa: S608
        f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {staging}",  # noqa: S608
        f"DROP TABLE {staging}",
    )


def _last_versions(frame: "DataFrame", target: SinkTarget) -> "DataFrame":
    """Return the last version of each result in update mode; all rows otherwise."""
    key = target.upsert_key
    if key is None:
        return frame
    from pyspark.sql import functions as f

    lists = f.expr("max_by(struct(*), version)").alias("_last")
    latest = frame.groupBy(*(f"`{name}`" for name in key)).agg(lists)
    return latest.where("_last IS NOT NULL").select("_last.*")  # without groups there is a row


def _in_one_transaction(spark: "SparkSession", options: dict[str, str], *statements: str) -> None:
    """Run SQL statements on the driver, over the JDBC driver that Spark uses."""
    jvm: Any = spark.sparkContext._jvm
    packages = jvm.org.apache.spark.sql
    jdbc_options = packages.execution.datasources.jdbc.JDBCOptions(
        jvm.PythonUtils.toScalaMap(options)
    )
    dialect = packages.jdbc.JdbcDialects.get(options["url"])
    connection = dialect.createConnectionFactory(jdbc_options).apply(-1)
    try:
        connection.setAutoCommit(False)
        statement = connection.createStatement()
        for text in statements:
            statement.execute(text)
        connection.commit()
    finally:
        connection.close()


def _has_format(spark: "SparkSession", name: str) -> bool:
    """Return whether Spark knows a data source."""
    jvm: Any = spark.sparkContext._jvm
    conf = spark._jsparkSession.sessionState().conf()
    try:
        jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(name, conf)
    except Exception:  # py4j raises whatever the JVM throws
        return False
    return True


_WRITERS: dict[str, Callable[["DataFrame", SinkTarget, Delivery], None]] = {
    "delta": _write_delta,
    "iceberg": _write_iceberg,
    "jdbc": _write_jdbc,
    "kafka": _write_kafka,
}
