"""What a specification may say: every field, its type, its default and what it is for."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from evenflow.planning.controller import Balancing as Settings
from evenflow.spec.dataclass_model import model_from_dataclass
from evenflow.spec.datasets import DatasetSpec

SparkOptions = dict[str, Any]
NameList = Annotated[tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)]


class SpecModel(BaseModel):
    """A part of a specification; a field it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class InputSpec(SpecModel):
    """Where rows come from: a Spark format with options, or a bundled dataset."""

    format: str | None = Field(None, description="Any Spark format: parquet, json, csv, kafka, ...")
    path: str | None = Field(None, description="What to read, relative to this file; or a URI.")
    options: SparkOptions = Field({}, description="Options of the format, as Spark names them.")
    # Pydantic has a `schema` of its own, long deprecated.
    columns: str | None = Field(
        None, alias="schema", description="Columns and types: `ts TIMESTAMP, price DOUBLE`."
    )
    select: tuple[str, ...] = Field(
        (),
        description="Spark SQL expressions that make the columns of `schema` out of what is read "
        "(Kafka: `from_json(CAST(value AS STRING), '...').*`).",
    )
    dataset: str | None = Field(None, description="A name from `datasets`, instead of `format`.")
    part: str | None = Field(
        None, description="Which stream or table of the dataset; the name of this one if left out."
    )

    @model_validator(mode="after")
    def _validate_origin(self) -> "InputSpec":
        self._check_origin()
        return self

    def _check_origin(self) -> None:
        if (self.format is None) == (self.dataset is None):
            raise ValueError("give either `format` or `dataset`")
        if self.dataset is not None:
            given = {"path", "options", "columns", "select"} & self.model_fields_set
            if given:
                name = sorted(given)[0].replace("columns", "schema")
                raise ValueError(f"a dataset has its own {name}; leave it out")
        elif self.part is not None:
            raise ValueError("`part` names a part of a dataset; leave it out")


class SourceSpec(InputSpec):
    """A stream: rows with an event time."""

    time: str = Field(description="The event-time column, a TIMESTAMP.")
    watermark: str = Field(
        "0 seconds", description="How much later than the newest a row may come: `10 seconds`."
    )


class ReferenceTableSpec(InputSpec):
    """A reference table, read once when the run starts."""

    rows: tuple[dict[str, Any], ...] | None = Field(
        None, description="The rows themselves, instead of `format`; needs `schema`."
    )

    def _check_origin(self) -> None:
        if self.rows is None:
            super()._check_origin()
        elif self.format is not None or self.dataset is not None:
            raise ValueError("give `rows` or `format` or `dataset`, one of them")


def _parse_key(value: Any) -> tuple[str, ...] | dict[str, tuple[str, ...]] | None:
    """Take a column, a list of columns, or those of each stream."""
    if isinstance(value, dict) and value:
        return {str(stream): _parse_columns(columns) for stream, columns in value.items()}
    return None if value is None else _parse_columns(value)


def _parse_columns(value: Any) -> tuple[str, ...]:
    found = (value,) if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not found or not all(map(_is_nonempty_string, found)):
        raise ValueError(f"expected a column, a list of them or {{stream: columns}}, got {value!r}")
    return tuple(found)


def _is_nonempty_string(value: object) -> bool:
    return isinstance(value, str) and bool(value)


class HostedSpec(SpecModel):
    """How a query is hosted."""

    key: Annotated[Any, BeforeValidator(_parse_key)] = Field(
        None,
        description="Columns to spread it by over all workers; `{stream: columns}` where streams "
        "name them differently. Left out: it is whole.",
    )
    publish: bool = Field(False, description="Make its results a stream that others may read.")
    worker: int | None = Field(None, ge=0, description="Pin it to this worker.")


class QuerySpec(HostedSpec):
    """A continuous SELECT; `name: SELECT ...` is short for `name: {sql: SELECT ...}`."""

    sql: str = Field(description="Spark SQL; see writing-queries.md.")


class SubscriptionsSpec(SpecModel):
    """Rows with the column `subscription`, their name, and one for each parameter."""

    path: str | None = Field(None, description="A file ending in .csv, .jsonl or .parquet.")
    dataset: str | None = Field(None, description="A name from `datasets`, instead of `path`.")
    part: str | None = Field(None, description="Which table of the dataset.")
    rows: tuple[dict[str, Any], ...] | None = Field(None, description="The rows themselves.")

    @model_validator(mode="after")
    def _validate_origin(self) -> "SubscriptionsSpec":
        if sum(value is not None for value in (self.path, self.dataset, self.rows)) != 1:
            raise ValueError("give `path` or `dataset` or `rows`, one of them")
        if (self.part is None) != (self.dataset is None):
            raise ValueError("`dataset` and `part` go together")
        return self


def _expand_subscriptions(value: Any) -> Any:
    if isinstance(value, str):
        return {"path": value}
    return {"rows": value} if isinstance(value, list) else value


class TemplateSpec(HostedSpec):
    """One SQL text with parameters such as `:symbol`, for very many subscriptions."""

    sql: str = Field(description="Spark SQL with parameters.")
    subscriptions: Annotated[SubscriptionsSpec, BeforeValidator(_expand_subscriptions)] | None = (
        Field(None, description="A file name, a list of rows, or the fields below.")
    )


class OperatorSpec(HostedSpec):
    """A Python class over Arrow tables, for what SQL cannot say."""

    path: str = Field(
        alias="class", description="`package.module:Class`; modules beside this file are found."
    )
    streams: NameList = Field(description="The streams it reads.")


class SinkSpec(SpecModel):
    """Where results go, batch by batch, after they are committed."""

    format: str = Field(description="parquet, orc, json, csv, console, kafka, ... any of Spark's.")
    path: str | None = Field(
        None, description="Where files go; `{query}` stands for the query's name."
    )
    queries: NameList | Literal["*"] = Field(
        "*", description="Which queries, templates and operators; all if left out."
    )
    options: SparkOptions = Field({}, description="Options of the format, as Spark names them.")
    select: tuple[str, ...] = Field(
        (),
        description="Spark SQL expressions over the results, for formats that want certain columns "
        "(Kafka: `to_json(struct(*)) AS value`).",
    )


class SparkSpec(SpecModel):
    """The Spark session."""

    master: str = Field(
        "local[2,4]", description="Where Spark runs; `local[cores,failures]` or spark://host:port."
    )
    config: SparkOptions = Field({}, description="Settings: `spark.driver.memory: 4g`.")


if TYPE_CHECKING:
    BalancingSpec = BaseModel
else:
    BalancingSpec = model_from_dataclass(Settings)


def _parse_balancing(value: Any) -> Any:
    """Take `balancing: off`, which YAML reads as false, and `on`, which is the default."""
    if value is True:
        return {}
    return None if value is False else value


def _expand_sql(value: Any) -> Any:
    return {"sql": value} if isinstance(value, str) else value


class Spec(SpecModel):
    """A whole specification."""

    name: str = Field("evenflow", description="What the run is called.")
    workers: int = Field(description="How many workers share the work.", ge=1, le=4096)
    checkpoint: str = Field(
        description="Folder or URI where state, ledger and history stand; a second run goes on."
    )
    trigger: str = Field("1 second", description="How often a batch begins.")
    available_now: bool = Field(
        False, description="Process what is there, then end; else run until stopped."
    )
    compare: Literal["hash"] | None = Field(
        None,
        description="`hash`: after the run, play the same bounded sources once more without "
        "balancing, and show both side by side.",
    )
    datasets: dict[str, DatasetSpec] = Field({}, description="Bundled, seeded data to play with.")
    sources: dict[str, SourceSpec] = Field(description="The streams.", min_length=1)
    tables: dict[str, ReferenceTableSpec] = Field({}, description="Reference tables.")
    queries: dict[str, Annotated[QuerySpec, BeforeValidator(_expand_sql)]] = Field(
        {}, description="Continuous queries."
    )
    templates: dict[str, TemplateSpec] = Field({}, description="Templates and their subscriptions.")
    operators: dict[str, OperatorSpec] = Field({}, description="Python operators.")
    balancing: Annotated[BalancingSpec | None, BeforeValidator(_parse_balancing)] = Field(
        default_factory=BalancingSpec,
        description="How keys and queries are kept even. `off`: by hash and order of arrival.",
    )
    sinks: dict[str, SinkSpec] = Field({}, description="Where results go.")
    spark: SparkSpec = Field(
        default_factory=lambda: SparkSpec.model_validate({}), description="The Spark session."
    )
