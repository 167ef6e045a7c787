"""Build a flow from a checked spec: DataFrames of sources and tables, then queries in order."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema

from evenflow.errors import InputError
from evenflow.model.limits import MemoryLimits
from evenflow.spark.arrow import arrow_schema
from evenflow.spark.flow import Flow
from evenflow.spec import CheckedSpec, files
from evenflow.spec.datasets import ensure_dataset_files
from evenflow.spec.files import spark_options
from evenflow.spec.models import BackfillSpec, HostedSpec, InputSpec, ReferenceTableSpec
from evenflow.sql import import_operator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# These formats know their columns and take no schema.
_FORMATS_WITH_OWN_COLUMNS = ("kafka", "rate", "rate-micro-batch", "socket")


def flow_from_spec(
    checked: CheckedSpec, spark: "SparkSession", checkpoint: str, *, with_sinks: bool = True
) -> Flow:
    """Return a flow with everything that the spec declares."""
    spec = checked.spec
    flow = Flow(
        spark,
        workers=spec.workers,
        checkpoint=checkpoint,
        durability=spec.durability,
        keep_results=spec.results.keep,
        limits=MemoryLimits(**spec.limits.model_dump()),
        storage=checked.storage,
    )
    for name, source in spec.sources.items():
        frame = _conform(checked, name, _source_frame(checked, spark, name, source))
        flow.source(
            name,
            frame,
            time=source.time,
            watermark=source.watermark,
            max_ahead=source.max_ahead if source.dataset is None else None,
            on_bad_file=source.on_bad_file,
        )
    for name, table in spec.tables.items():
        flow.table(name, _conform(checked, name, _table_frame(checked, spark, name, table)))
    for name, function in spec.functions.items():
        flow.function(name, function.path, returns=function.returns)
    for name, limits in spec.tenants.items():
        flow.tenant(name, **limits.model_dump())
    for name in checked.order:
        _declare_query(flow, checked, spark, name)
    for name, rows in checked.subscriptions.items():
        if len(rows):
            flow.subscribe(name, rows)
    for name, sink in spec.sinks.items() if with_sinks else ():
        flow.sink(name, **{**sink.model_dump(), "path": sink.path and checked.resolve(sink.path)})
    return flow


def data_folder(checked: CheckedSpec) -> Path:
    """Return where bundled datasets are written: next to the checkpoint if it is local."""
    place = Path(checked.resolve(checked.spec.checkpoint).removeprefix("file://"))
    return place.parent / f"{place.name}-data" if place.is_absolute() else Path("evenflow-data")


def _declare_query(flow: Flow, checked: CheckedSpec, spark: "SparkSession", name: str) -> None:
    spec = checked.spec
    if name in spec.queries:
        q = spec.queries[name]
        frames = {
            source: _load(checked, spark.read, source, read) for source, read in q.backfill.items()
        }
        flow.query(name, q.sql, mode=q.mode, ttl=q.ttl, backfill=frames or None, **_hosting(q))
    elif name in spec.templates:
        t = spec.templates[name]
        flow.template(name, t.sql, **_hosting(t))
    else:
        o = spec.operators[name]
        flow.operator(name, import_operator(o.path), o.streams, isolate=o.isolate, **_hosting(o))


def _hosting(q: HostedSpec) -> dict[str, Any]:
    return {"key": q.key, "publish": q.publish, "worker": q.worker, "tenant": q.tenant}


def _source_frame(
    checked: CheckedSpec, spark: "SparkSession", name: str, read: InputSpec
) -> "DataFrame":
    if read.dataset is not None:
        folder = _dataset_folder(checked, name, read)
        reader = spark.readStream.schema(from_arrow_schema(checked.schemas[name]))
        return reader.option("maxFilesPerTrigger", 1).parquet(folder)
    return _load(checked, spark.readStream, name, read)


def _table_frame(
    checked: CheckedSpec, spark: "SparkSession", name: str, table: ReferenceTableSpec
) -> "DataFrame":
    if table.rows is not None:
        return spark.createDataFrame(files.table_from_rows(table.rows, checked.schemas[name]))
    if table.dataset is not None:
        return spark.read.parquet(_dataset_folder(checked, name, table))
    return _load(checked, spark.read, name, table)


def _dataset_folder(checked: CheckedSpec, name: str, read: InputSpec) -> str:
    model = checked.spec.datasets[str(read.dataset)]
    return str(ensure_dataset_files(model, read.part or name, data_folder(checked)))


def _load(
    checked: CheckedSpec, reader: Any, name: str, read: InputSpec | BackfillSpec
) -> "DataFrame":
    reader = reader.format(read.format).options(**spark_options(read.options))
    if not read.select and read.format not in _FORMATS_WITH_OWN_COLUMNS:
        reader = reader.schema(from_arrow_schema(checked.schemas[name]))
    try:
        frame: DataFrame = reader.load(None if read.path is None else checked.resolve(read.path))
        return frame.selectExpr(*read.select) if read.select else frame
    except PySparkException as error:
        raise InputError(f"{name!r} cannot be read: {str(error).splitlines()[0]}") from None


def _conform(checked: CheckedSpec, name: str, frame: "DataFrame") -> "DataFrame":
    """Return a frame with the declared columns; refuse one that has others."""
    wanted = from_arrow_schema(checked.schemas[name])
    try:
        return frame.to(wanted)
    except PySparkException:
        found = ", ".join(f"{f.name} {f.type}" for f in arrow_schema(frame, f"{name!r}"))
        raise InputError(
            f"{name!r} does not match its declared schema; its columns are {found}"
        ) from None
