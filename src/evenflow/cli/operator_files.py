"""Input of `evenflow plan operators`: load series and placements."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.cli.table_files import (
    check_distinct,
    check_no_nulls,
    check_not_negative,
    key_column,
    number_column,
    read_table,
    worker_column,
)
from evenflow.errors import InputError
from evenflow.model import LoadSeries
from evenflow.model.arrays import NOWHERE
from evenflow.planning.operators.problem import OperatorSnapshot

_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def read_operator_snapshot(
    loads: Path, current: Path | None, workers: int
) -> tuple[OperatorSnapshot, pa.Array]:
    """Read load series and placement; InputError if a series is incomplete or contradictory."""
    table = read_table(loads, ("operator", "sample", "load"), ("movable", "worker"))
    values = check_not_negative(number_column(table, "load", loads), "load", loads).to_numpy()
    names, row_of = _distinct_values(table["operator"], "operator", loads)
    moments, moment_of = _distinct_values(table["sample"], "sample", loads)
    # Sorted cells, not a matrix: incomplete series may name more cells than fit into memory.
    cells = np.sort(row_of.astype(np.int64) * len(moments) + moment_of)
    twice = cells[1:][cells[1:] == cells[:-1]]
    gaps = np.flatnonzero(cells != np.arange(len(cells)))
    if len(twice) or len(cells) < len(names) * len(moments):
        cell = int(twice[0]) if len(twice) else int(gaps[0]) if len(gaps) else len(cells)
        count = f"{int((cells == cell).sum())} loads" if len(twice) else "no load"
        raise InputError(
            f"{loads}: operator {names[cell // len(moments)]} has {count} in sample "
            f"{moments[cell % len(moments)]}; every operator needs one load in every sample"
        )
    samples = np.zeros((len(names), len(moments)))
    samples[row_of, moment_of] = values
    movable = np.ones(len(names), dtype=bool)
    placement = np.full(len(names), NOWHERE, dtype=np.int32)
    if "movable" in table.column_names:
        flags = _boolean_column(table["movable"], loads)
        movable = _value_per_operator(flags, row_of, names, "movable", loads)
    if "worker" in table.column_names:
        placed = worker_column(table, loads, workers, optional=True)
        placement = _value_per_operator(placed, row_of, names, "worker", loads)
    if current:
        placement = _read_placement(current, loads, names, workers)
    series = LoadSeries(tuple(map(str, names.to_pylist())), samples, movable)
    return OperatorSnapshot(series, workers, placement), names


def _read_placement(path: Path, loads: Path, names: pa.Array, workers: int) -> Any:
    table = read_table(path, ("operator", "worker"))
    operators = check_distinct(key_column(table["operator"], path), "operator", path)
    placed = worker_column(table, path, workers, optional=True)
    rows = pc.index_in(names.cast(pa.string()), value_set=operators.cast(pa.string()))
    if rows.null_count == len(rows):
        raise InputError(f"{path}: none of its operators is in {loads}; check the names")
    rows = rows.fill_null(-1).to_numpy()
    return np.where(rows >= 0, placed[rows], NOWHERE).astype(np.int32)


def _distinct_values(column: pa.ChunkedArray, name: str, path: Path) -> tuple[pa.Array, Any]:
    """Return the distinct values in order, and the index of each row's value."""
    values = key_column(column, path)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_nested(values.type):
        raise InputError(f"{path}: column {name} must hold names or numbers, got {values.type}")
    distinct = pc.unique(check_no_nulls(values, name, path))
    distinct = distinct.take(pc.sort_indices(distinct))
    return distinct, pc.index_in(values, value_set=distinct).to_numpy()


def _boolean_column(column: pa.ChunkedArray, path: Path) -> Any:
    flags = [_BOOLEANS.get(str(value).strip().lower()) for value in column.to_pylist()]
    if None in flags:
        row = flags.index(None)
        raise InputError(
            f"{path}: column movable must be true or false, got {column[row]} in row {row + 1}"
        )
    return np.array(flags, dtype=bool)


def _value_per_operator(values: Any, row_of: Any, names: pa.Array, column: str, path: Path) -> Any:
    """Return one value per operator; InputError if an operator has several."""
    result = np.zeros(len(names), dtype=values.dtype)
    result[row_of] = values
    differs = np.flatnonzero(result[row_of] != values)
    if len(differs):
        name = names[int(row_of[differs[0]])]
        raise InputError(f"{path}: operator {name} has several values of {column}; keep one")
    return result
