"""Input and output of `evenflow plan queries`: queries, rates, placements, JSON."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.cli.table_files import (
    check_distinct,
    first_row,
    key_column,
    number_column,
    read_table,
    worker_column,
)
from evenflow.errors import InputError
from evenflow.model import Verdict
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries import (
    NOWHERE,
    Placement,
    PlacementMetrics,
    PlacementProblem,
    plan_queries,
)
from evenflow.planning.queries.query_types import query_types


@dataclass(frozen=True, slots=True)
class QueryFile:
    """Names of the queries, the sources they read, and their pins."""

    names: pa.Array
    subscriptions: Subscriptions
    pinned: Workers


def read_queries(path: Path, rates_path: Path | None, workers: int) -> QueryFile:
    """Read queries in order of arrival, and the rates of their sources (default 1)."""
    if path.suffix == ".csv":
        raise InputError(f"{path}: lists of sources need Parquet or JSON lines, not CSV")
    table = read_table(path, ("query", "sources"), ("load", "pinned"))
    names = check_distinct(_name_column(table["query"], "query", path), "query", path)
    lists = table["sources"].combine_chunks()
    if pa.types.is_fixed_size_list(lists.type):
        lists = lists.cast(pa.list_(lists.type.value_type))
    if not (pa.types.is_list(lists.type) or pa.types.is_large_list(lists.type)):
        raise InputError(f"{path}: column sources must hold lists, got {lists.type}")
    sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    if sizes.min() < 1:
        row = int(sizes.argmin())
        raise InputError(
            f"{path}: query {names[row]} (row {row + 1}) has no sources; list at least one"
        )
    values = _name_column(pa.chunked_array([lists.flatten()]), "sources", path)
    index = first_row(values.is_null())
    if index is not None:
        row = int(np.searchsorted(np.cumsum(sizes), index, side="right"))
        raise InputError(f"{path}: query {names[row]} (row {row + 1}) has an empty source name")
    indices, rates = _source_indices(values, names, sizes, path, rates_path)
    return QueryFile(
        names,
        _build_subscriptions(sizes, indices, rates, _load_column(table, names, path)),
        _pin_column(table, path, workers),
    )


def _build_subscriptions(
    sizes: Indices, indices: Workers, rates: Floats, loads: Floats
) -> Subscriptions:
    """Sort the sources of each query and drop duplicates."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((indices, owner))
    owner, indices = owner[order], indices[order]
    distinct = np.ones(len(indices), dtype=np.bool_)
    distinct[1:] = (owner[1:] != owner[:-1]) | (indices[1:] != indices[:-1])
    counts = np.bincount(owner[distinct], minlength=len(sizes))
    starts = np.concatenate(([0], np.cumsum(counts)))
    return Subscriptions(starts, indices[distinct], rates, loads)


def _name_column(values: pa.ChunkedArray, column: str, path: Path) -> pa.Array:
    """Return names as strings or integers."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        values = values.cast(pa.string())
    if not (pa.types.is_string(values.type) or pa.types.is_integer(values.type)):
        raise InputError(f"{path}: {column} must be strings or integers, got {values.type}")
    return key_column(values, path)


def _source_indices(
    values: pa.Array, names: pa.Array, sizes: Indices, path: Path, rates_path: Path | None
) -> tuple[Workers, Floats]:
    if rates_path is None:
        encoded = values.dictionary_encode()
        positions = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32)
        return positions, np.ones(len(encoded.dictionary))
    table = read_table(rates_path, ("source", "rate"))
    known = check_distinct(
        _name_column(table["source"], "source", rates_path), "source", rates_path
    )
    rates = _check_positive(
        number_column(table, "rate", rates_path), known, "source", "rate", rates_path
    )
    if known.type != values.type:
        known, values = known.cast(pa.string()), values.cast(pa.string())
    indices = pc.index_in(values, value_set=known)
    index = first_row(indices.is_null())
    if index is not None:
        row = int(np.searchsorted(np.cumsum(sizes), index, side="right"))
        raise InputError(
            f"{path}: query {names[row]} reads unknown source {values[index]}; "
            f"add its rate to {rates_path}"
        )
    return indices.to_numpy(zero_copy_only=False).astype(np.int32), rates


def _check_positive(
    values: pa.Array, names: pa.Array, kind: str, column: str, path: Path
) -> Floats:
    array = np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)
    if array.min() <= 0:
        row = int(np.flatnonzero(array <= 0)[0])
        raise InputError(
            f"{path}: {column} must be positive, got {array[row]:g} for {kind} {names[row]}"
        )
    return array


def _load_column(table: pa.Table, names: pa.Array, path: Path) -> Floats:
    if "load" not in table.column_names:
        return np.ones(len(table))
    load = table["load"]
    if pa.types.is_null(load.type):
        return np.ones(len(table))
    if not _is_number(load.type):
        raise InputError(f"{path}: column load must hold numbers, got {load.type}")
    filled = pc.fill_null(load.cast(pa.float64()), 1.0)
    table = table.set_column(table.column_names.index("load"), "load", filled)
    return _check_positive(number_column(table, "load", path), names, "query", "load", path)


def _pin_column(table: pa.Table, path: Path, workers: int) -> Workers:
    """Return the worker that each query is pinned to, NOWHERE if none."""
    if "pinned" not in table.column_names or table["pinned"].null_count == len(table):
        return np.full(len(table), NOWHERE, dtype=np.int32)
    if not _is_number(table["pinned"].type):
        kind = table["pinned"].type
        raise InputError(f"{path}: column pinned must hold numbers of workers, got {kind}")
    return worker_column(table, path, workers, "pinned", optional=True)


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def read_placement(path: Path, names: pa.Array, workers: int) -> Workers:
    """Read the current placement; NOWHERE for queries that are not in the file."""
    table = read_table(path, ("query", "worker"), may_be_empty=True)
    queries = check_distinct(_name_column(table["query"], "query", path), "query", path)
    placed = worker_column(table, path, workers)
    if queries.type != names.type:
        queries, names = queries.cast(pa.string()), names.cast(pa.string())
    indices = pc.index_in(queries, value_set=names)
    known = indices.is_valid().to_numpy(zero_copy_only=False)
    current = np.full(len(names), NOWHERE, dtype=np.int32)
    current[indices.drop_null().to_numpy(zero_copy_only=False)] = placed[known]
    return current


def check_single_source(query_file: QueryFile) -> None:
    """Raise an InputError if a query has several sources."""
    sizes = np.diff(query_file.subscriptions.starts)
    most = int(sizes.argmax())
    if sizes[most] > 1:
        raise InputError(
            f"--algorithm single-source needs queries with one source, but query "
            f"{query_file.names[most]} has {sizes[most]}; choose another algorithm"
        )


def name_queries(verdicts: tuple[Verdict, ...], names: pa.Array) -> tuple[Verdict, ...]:
    """Replace the positions of queries, which planners use, by their names."""
    return tuple(
        replace(verdict, subject=str(names[int(verdict.subject)]))
        if verdict.code in ("arrival_over_bound", "no_room")
        else verdict
        for verdict in verdicts
    )


def timed_plan(
    problem: PlacementProblem, algorithm: str, seed: int, max_moves: int | None
) -> tuple[Placement, float]:
    """Plan and measure the time, after a tiny plan that triggers compilation."""
    tiny = PlacementProblem.of(
        Subscriptions.from_source_sets([[0], [0]]), 2, current=np.zeros(2, dtype=np.int32)
    )
    plan_queries(tiny, algorithm, np.random.default_rng(seed), max_moves)
    started = time.perf_counter()
    placement = plan_queries(problem, algorithm, np.random.default_rng(seed), max_moves)
    return placement, time.perf_counter() - started


def query_plan_to_json(
    problem: PlacementProblem,
    algorithm: str,
    placement: Placement,
    metrics: PlacementMetrics,
    seconds: float,
) -> dict[str, Any]:
    """Return the fields of `--json`."""
    subscriptions = problem.subscriptions
    return {
        "algorithm": algorithm,
        "workers": len(problem.fleet),
        "queries": len(subscriptions),
        "query_types": int(query_types(subscriptions).max()) + 1,
        "sources": int((subscriptions.reader_counts() > 0).sum()),
        "feasible": metrics.feasible,
        "traffic": metrics.traffic,
        "replication_factor": metrics.replication_factor,
        "lower_bound": metrics.lower_bound,
        "max_over_mean_load": metrics.max_over_mean_load,
        "moved_queries": placement.moved,
        "plan_seconds": seconds,
        "queries_per_second": len(subscriptions) / seconds,
    }
