"""Which query's results go to which sink."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from evenflow.errors import InputError
from evenflow.names import check_name, join_names
from evenflow.spark.protocol.registry import Hosted
from evenflow.spec.sink_model import SinkSpec, sink_problems

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_COLUMN = "batch"
QUERY_PLACEHOLDER = "{query}"


@dataclass(frozen=True, slots=True)
class Delivery:
    """Results of the batches `first` to `until - 1` of a query, which a sink gets together.

    `writer` differs between checkpoints, sinks and submissions of a query, and stays the same when
    a run is started again; `writer` and `until` identify a delivery. `is_repeated`: an earlier
    attempt may have written all or a part of it.
    """

    query: str
    first: int
    until: int
    writer: str
    is_repeated: bool


ForeachBatch = Callable[["DataFrame", Delivery], Any]


@dataclass(frozen=True, slots=True)
class SinkTarget:
    """One query and the sink that gets its results; `problem` says why it cannot.

    `function` is called with the results instead of writing them. `upsert_key` are the columns that
    identify a result in update mode, known when results are delivered.
    """

    sink: str
    query: str
    spec: SinkSpec
    path: str | None
    table: str | None = None
    problem: str | None = None
    function: ForeachBatch | None = None
    upsert_key: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """A sink as a user declared it; paths are absolute."""

    spec: SinkSpec
    function: ForeachBatch | None = None


def declare_sink(
    name: str,
    function: ForeachBatch | None,
    format_name: str,
    path: str | None,
    table: str | None,
    queries: str | Collection[str],
    options: Mapping[str, Any],
    select: Collection[str],
) -> Sink:
    """Return a sink with the arguments of `Flow.sink`."""
    check_name(name, "sink")
    if function is not None and (path is not None or table is not None):
        raise InputError(f"sink {name!r} has foreach_batch, so it takes no path and no table")
    fields = {
        "format": "console" if function is not None else format_name,
        "path": path,
        "table": table,
        "queries": queries if isinstance(queries, str) else tuple(queries),
        "options": dict(options),
        "select": tuple(select),
    }
    return Sink(SinkSpec.model_validate(fields), function)


# Of queries, by name or uid: the columns that identify a result; None if results never change.
UpsertKeys = Mapping[str, tuple[str, ...] | None]


def upsert_keys(hosted: Mapping[str, Hosted]) -> UpsertKeys:
    """Return the columns that identify a result of each query."""
    return {name: query.upsert_key for name, query in hosted.items()}


def check_sinks(sinks: Mapping[str, Sink], hosted: UpsertKeys) -> None:
    """Refuse a sink that cannot deliver the results of the hosted queries."""
    for name, sink in sinks.items():
        for place, problem in sink_problems(sink.spec, hosted):
            raise InputError(f"sink {name!r}: {'.'.join(map(str, place))} {problem}")
        for query in hosted if sink.spec.queries == "*" else sink.spec.queries:
            key = hosted[query]
            if key is not None and (refused := _update_problem(sink, query, key)):
                raise InputError(f"sink {name!r}: {refused}")


def _update_problem(sink: Sink, query: str, key: Collection[str]) -> str | None:
    """Say why a sink cannot take the results of a query in update mode, if it cannot."""
    spec = sink.spec
    has_key = any(item.lower().endswith(" as key") for item in spec.select)
    if sink.function is not None or spec.format == "console":
        return None
    if spec.format == "jdbc":
        kept = {item.lower().split(" as ")[-1].strip(" `") for item in spec.select or ("*",)}
        missing = [name for name in key if name.lower() not in kept and "*" not in kept]
        return None if not missing else (
            f"results of {query!r} are updated by {join_names(key)}; `select` lacks "
            f"{join_names(missing)}"
        )  # fmt: skip
    if spec.format == "kafka":
        return None if has_key else (
            f"results of {query!r} are updated, so `select` needs a key for Kafka, such as "
            "`CAST(id AS STRING) AS key`"
        )  # fmt: skip
    return (
        f"the format {spec.format} cannot update the results of {query!r}; use jdbc, kafka with a "
        "key or foreach_batch"
    )


def sink_targets(
    sinks: Mapping[str, Sink],
    names: Iterable[str],
    declared: Iterable[str],
    keys: UpsertKeys = MappingProxyType({}),
) -> tuple[SinkTarget, ...]:
    """Return the targets of sinks for the queries `names`, which have results by now.

    A sink for all queries (`*`) also gets those that were not declared before the start.
    """
    names, declared = tuple(names), frozenset(declared)
    targets: list[SinkTarget] = []
    for name, sink in sinks.items():
        spec = sink.spec
        place = spec.path or spec.table
        for query in names if spec.queries == "*" else spec.queries:
            problem = None
            if place is not None and QUERY_PLACEHOLDER not in place and query not in declared:
                problem = (
                    f"its results would go to the same place as those of other queries; add "
                    f"{QUERY_PLACEHOLDER} to the path or table of sink {name!r}"
                )
            if (key := keys.get(query)) is not None:
                problem = problem or _update_problem(sink, query, key)
            path, table = (_fill_in(text, query) for text in (spec.path, spec.table))
            targets.append(SinkTarget(name, query, spec, path, table, problem, sink.function))
    return tuple(targets)


def _fill_in(text: str | None, query: str) -> str | None:
    return text and text.replace(QUERY_PLACEHOLDER, query)
