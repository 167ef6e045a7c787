"""Fields of a spec with type, default and description; docs/reference/spec.md is made from them."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from evenflow.model.limits import MemoryLimits
from evenflow.model.retention import Retention
from evenflow.planning.controller import Balancing as Settings
from evenflow.spec.alerts import AlertsSpec
from evenflow.spec.base import NameList, SparkOptions, SpecModel
from evenflow.spec.dataclass_model import model_from_dataclass
from evenflow.spec.datasets import DatasetSpec
from evenflow.spec.service_model import ServiceSpec
from evenflow.spec.sink_model import SinkSpec
from evenflow.spec.tenant_model import TenantSpec
from evenflow.sql.compile.hints import with_hints


class InputSpec(SpecModel):
    """Origin of rows: a Spark format with options, or a bundled dataset."""

    format: str | None = Field(None, description="Any Spark format: parquet, json, csv, kafka, ...")
    path: str | None = Field(None, description="Path to read, relative to this file, or a URI.")
    options: SparkOptions = Field({}, description="Options of the format, as Spark names them.")
    # `schema` is a deprecated method of pydantic models.
    columns: str | None = Field(
        None, alias="schema", description="Columns and types: `ts TIMESTAMP, price DOUBLE`."
    )
    select: tuple[str, ...] = Field(
        (),
        description="Spark SQL expressions that turn the rows read into the columns of `schema` "
        "(Kafka: `from_json(CAST(value AS STRING), '...') AS row`, then `row.price AS price`).",
    )
    dataset: str | None = Field(None, description="A name from `datasets`, instead of `format`.")
    part: str | None = Field(None, description="Part of the dataset; default: this entry's name.")

    @model_validator(mode="after")
    def _validate_origin(self) -> "InputSpec":
        self._check_origin()
        return self

    def _check_origin(self) -> None:
        if (self.format is None) == (self.dataset is None):
            raise ValueError("needs either `format` or `dataset`")
        if self.dataset is not None:
            extra = {"path", "options", "columns", "select"} & self.model_fields_set
            if extra:
                name = min(extra).replace("columns", "schema")
                raise ValueError(f"`{name}` cannot be combined with `dataset`; remove it")
        elif self.part is not None:
            raise ValueError("`part` is only valid with `dataset`; remove it")


class SourceSpec(InputSpec):
    """A stream: rows with an event time."""

    time: str = Field(description="The event-time column, a TIMESTAMP.")
    watermark: str = Field("0 seconds", description="Maximum lateness of a row: `10 seconds`.")
    max_ahead: Annotated[str | None, BeforeValidator(lambda v: None if v is False else v)] = Field(
        "1 day",
        description="Rows further ahead of the batch's clock are set aside, as they would make all "
        "later rows late. `off`: any time; always so for a `dataset`.",
    )
    on_bad_file: Literal["stop", "skip"] = Field(
        "stop",
        description="A file that cannot be read stops the run, or is left out as a whole and "
        "listed by its name.",
    )


class ReferenceTableSpec(InputSpec):
    """A reference table, read once when the run starts."""

    rows: tuple[dict[str, Any], ...] | None = Field(
        None, description="Inline rows, instead of `format`; needs `schema`."
    )

    def _check_origin(self) -> None:
        if self.rows is None:
            super()._check_origin()
        elif self.format is not None or self.dataset is not None:
            raise ValueError("needs exactly one of `rows`, `format` and `dataset`")


def _parse_key(value: Any) -> tuple[str, ...] | dict[str, tuple[str, ...]] | None:
    """Accept a column, a list of columns, or columns by stream."""
    if isinstance(value, dict) and value:
        return {str(stream): _parse_columns(columns) for stream, columns in value.items()}
    return None if value is None else _parse_columns(value)


def _parse_columns(value: Any) -> tuple[str, ...]:
    columns = (value,) if isinstance(value, str) else value
    is_list = isinstance(columns, list | tuple) and bool(columns)
    if not is_list or not all(isinstance(column, str) and column for column in columns):
        expected = "a column, a list of columns or {stream: columns}"
        raise ValueError(f"expected {expected}, got {value!r}")
    return tuple(columns)


class HostedSpec(SpecModel):
    """Fields that queries, templates and operators share."""

    key: Annotated[Any, BeforeValidator(_parse_key)] = Field(
        None,
        description="Key columns that distribute it over all workers; `{stream: columns}` if their "
        "names differ between streams. Default: it runs on one worker.",
    )
    publish: bool = Field(False, description="Make the results a stream for other queries.")
    worker: int | None = Field(None, ge=0, description="Pin it to this worker.")
    tenant: str | None = Field(None, description="Whose limits it counts towards.")


class BackfillSpec(SpecModel):
    """Rows from before, in the columns of the source; read when the query is new."""

    format: str = Field(description="Any Spark format: parquet, delta, json, ...")
    path: str | None = Field(None, description="Path to read, relative to this file, or a URI.")
    options: SparkOptions = Field({}, description="Options of the format, as Spark names them.")
    select: tuple[str, ...] = Field(
        (), description="Spark SQL expressions that turn the rows read into those columns."
    )


class QuerySpec(HostedSpec):
    """A continuous SELECT; `name: SELECT ...` is short for `name: {sql: SELECT ...}`."""

    sql: str = Field(description="Spark SQL.")
    mode: Literal["append", "update"] = Field(
        "append",
        description="`update`: also results that are not complete yet, each in the place of an "
        "earlier one.",
    )
    ttl: str | None = Field(
        None,
        description="For `update` without a window: forget a group that has had no row for so "
        "long: `1 hour`.",
    )
    backfill: dict[str, BackfillSpec] = Field(
        {}, description="Source -> rows that the query takes before those of the stream."
    )

    @property
    def text(self) -> str:
        """The SQL with its mode."""
        return with_hints(self.sql, self.mode, self.ttl)


class SubscriptionsSpec(SpecModel):
    """Rows with a column `subscription`, the name, and one column per parameter."""

    path: str | None = Field(None, description="A file ending in .csv, .jsonl or .parquet.")
    dataset: str | None = Field(None, description="A name from `datasets`, instead of `path`.")
    part: str | None = Field(None, description="Table of the dataset.")
    rows: tuple[dict[str, Any], ...] | None = Field(None, description="Inline rows.")

    @model_validator(mode="after")
    def _validate_origin(self) -> "SubscriptionsSpec":
        if sum(value is not None for value in (self.path, self.dataset, self.rows)) != 1:
            raise ValueError("needs exactly one of `path`, `dataset` and `rows`")
        if (self.part is None) != (self.dataset is None):
            raise ValueError("`dataset` and `part` must be given together")
        return self


def _expand_subscriptions(value: Any) -> Any:
    if isinstance(value, str):
        return {"path": value}
    return {"rows": value} if isinstance(value, list) else value


class TemplateSpec(HostedSpec):
    """SQL with parameters such as `:symbol`, shared by many subscriptions."""

    sql: str = Field(description="Spark SQL with parameters.")
    subscriptions: Annotated[SubscriptionsSpec, BeforeValidator(_expand_subscriptions)] | None = (
        Field(None, description="A file name, a list of rows, or the fields below.")
    )


class OperatorSpec(HostedSpec):
    """A Python class over Arrow tables, for logic that SQL cannot express."""

    path: str = Field(
        alias="class", description="`package.module:Class`; may be a module next to this file."
    )
    streams: NameList = Field(description="The streams it reads.")
    isolate: bool = Field(False, description="Run it in a process of its own.")


class FunctionSpec(SpecModel):
    """A Python function over Arrow arrays that queries can call by its name."""

    path: str = Field(
        alias="function", description="`package.module:name`; may be a module next to this file."
    )
    returns: str = Field(description="The Spark type of its results: `DOUBLE`.")


def _check_keep(value: str) -> str:
    Retention.parse(value)
    return value


class LimitsSpec(SpecModel):
    """Memory and disk space that SQL may use in each worker process."""

    memory: str | None = Field(
        None,
        description="Memory of DuckDB: `2 GB`; what needs more spills to the local disk. Default: "
        "a quarter of the machine's memory, divided by its worker processes.",
    )
    spill: str | None = Field(
        None,
        description="Disk space to spill to: `20 GB`; `0 B`: none. Default: half of what is free "
        "in the folder for temporary files, divided by the worker processes.",
    )

    @model_validator(mode="after")
    def _validate_sizes(self) -> "LimitsSpec":
        MemoryLimits(self.memory, self.spill)
        return self


class ResultsSpec(SpecModel):
    """Committed results, which `run.results` and sinks read."""

    keep: Annotated[str, AfterValidator(_check_keep)] | None = Field(
        None,
        description="Remove older results: `7 days` or `1000 batches`. Default: keep all.",
    )


class StorageSpec(SpecModel):
    """Object storage of the checkpoint; credentials come from the environment by default."""

    endpoint: str | None = Field(
        None, description="URL of an S3-compatible server; default: that of the cloud."
    )
    region: str | None = Field(None, description="Region of the bucket; default: `AWS_REGION`.")
    allow_http: bool | None = Field(None, description="Allow an endpoint without TLS.")
    options: dict[str, Any] = Field(
        {},
        description="Other options, as obstore names them: `access_key_id`, `secret_access_key`, "
        "`sse_kms_key_id`, `account_key`, `service_account`, ...",
    )
    cache: str | int = Field(
        "10 GB",
        description="Most bytes of state that each machine keeps on its local disk; 0: none.",
    )
    cache_folder: str | None = Field(
        None, description="Folder of this cache; default: in the folder for temporary files."
    )


class SparkSpec(SpecModel):
    """The Spark session."""

    master: str = Field(
        "local[2,4]", description="Spark master: `local[cores,failures]` or spark://host:port."
    )
    config: SparkOptions = Field({}, description="Settings: `spark.driver.memory: 4g`.")


if TYPE_CHECKING:
    BalancingSpec = BaseModel
else:
    BalancingSpec = model_from_dataclass(Settings)


def _parse_balancing(value: Any) -> Any:
    """Accept `balancing: off`, which YAML reads as false, and `on`, the default."""
    if value is True:
        return {}
    return None if value is False else value


def _expand_sql(value: Any) -> Any:
    return {"sql": value} if isinstance(value, str) else value


class Spec(SpecModel):
    """A whole specification."""

    name: str = Field("evenflow", description="Name of the run.", max_length=128)
    workers: int = Field(description="Number of workers.", ge=1, le=4096)
    checkpoint: str = Field(
        description="Folder or URI (s3, s3a, gs, abfss) of the state; a second run continues it."
    )
    durability: Literal["process", "power"] = Field(
        "process",
        description="What a commit survives: the end of any process, or also a power loss (then it "
        "waits for the disk).",
    )
    storage: StorageSpec = Field(
        default_factory=lambda: StorageSpec.model_validate({}),
        description="Options of a checkpoint on object storage.",
    )
    trigger: str = Field("1 second", description="Interval between batches.")
    available_now: bool = Field(False, description="End when the available data is processed.")
    compare: Literal["hash"] | None = Field(
        None,
        description="`hash`: repeat the run without balancing, show both; needs bounded sources.",
    )
    datasets: dict[str, DatasetSpec] = Field({}, description="Bundled, seeded example data.")
    sources: dict[str, SourceSpec] = Field(description="The streams.", min_length=1)
    tables: dict[str, ReferenceTableSpec] = Field({}, description="Reference tables.")
    queries: dict[str, Annotated[QuerySpec, BeforeValidator(_expand_sql)]] = Field(
        {}, description="Continuous queries."
    )
    templates: dict[str, TemplateSpec] = Field({}, description="Templates and their subscriptions.")
    operators: dict[str, OperatorSpec] = Field({}, description="Python operators.")
    functions: dict[str, FunctionSpec] = Field({}, description="Python functions for SQL.")
    balancing: Annotated[BalancingSpec | None, BeforeValidator(_parse_balancing)] = Field(
        default_factory=BalancingSpec,
        description="Balancing of keys and queries. `off`: by hash and order of arrival.",
    )
    alerts: AlertsSpec = Field(
        default_factory=lambda: AlertsSpec.model_validate({}),
        description="When to tell somebody, and where.",
    )
    tenants: dict[str, TenantSpec] = Field(
        {},
        description="What the queries of each tenant may use together; `default`: of tenants that "
        "are not declared.",
    )
    limits: LimitsSpec = Field(
        default_factory=lambda: LimitsSpec.model_validate({}),
        description="Memory and disk space of each worker process.",
    )
    results: ResultsSpec = Field(
        default_factory=lambda: ResultsSpec.model_validate({}), description="Committed results."
    )
    sinks: dict[str, SinkSpec] = Field({}, description="Destinations of results.")
    spark: SparkSpec = Field(
        default_factory=lambda: SparkSpec.model_validate({}), description="The Spark session."
    )
    service: ServiceSpec = Field(
        default_factory=lambda: ServiceSpec.model_validate({}),
        description="The page and the HTTP API of `evenflow run`.",
    )
