"""`evenflow plan operators`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pyarrow as pa

    from evenflow.planning.operators.problem import OperatorSnapshot


def plan_operators_command(
    loads: Annotated[Path, typer.Argument(help="operator,sample,load[,movable,worker]")],
    workers: Annotated[int, typer.Option(help="Number of workers.")],
    algorithm: Annotated[
        str,
        typer.Option(
            help="cor-bal, cor-re, cor-se, cor-re-imp, cor-se-imp, cor-glb, llf-glb, rand-glb, "
            "llf-bal, rand-bal, variance or exact."
        ),
    ] = "cor-se-imp",
    current: Annotated[
        Path | None, typer.Option(help="Where operators run now: operator,worker.")
    ] = None,
    balance: Annotated[float, typer.Option(help="Balance pairs whose loads differ by more.")] = 0.1,
    exchange: Annotated[float, typer.Option(help="Exchange operators that score more.")] = 0.2,
    correlation: Annotated[float, typer.Option(help="Improve pairs correlated less.")] = 0.8,
    capacity: Annotated[float, typer.Option(help="Load that a worker can carry.")] = 1.0,
    placement_out: Annotated[
        Path | None, typer.Option(help="Write operator,worker here (.csv or .parquet).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of whatever is left to chance.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Plan which operator runs on which worker, so that bursts cancel out."""
    from dataclasses import asdict
    from time import perf_counter

    import numpy as np
    import pyarrow as pa

    from evenflow.cli.output import print_json, print_loads, print_result, verdicts_to_json
    from evenflow.cli.table_files import check_writable, write_tables
    from evenflow.errors import InputError
    from evenflow.planning.operators.metrics import measure_operator_plan
    from evenflow.planning.operators.problem import OperatorConfig
    from evenflow.planning.operators.registry import ALGORITHMS, plan_operators, warm_up

    if algorithm not in ALGORITHMS:
        raise InputError(
            f"--algorithm: unknown {algorithm!r}; choose one of {', '.join(ALGORITHMS)}"
        )
    if not 1 <= workers <= 100_000:
        raise InputError(f"--workers must be 1 to 100,000, got {workers}")
    if seed < 0:
        raise InputError(f"--seed must be at least 0, got {seed}")
    check_writable(placement_out, inputs=(loads, current))
    OperatorConfig(balance, exchange, correlation, capacity)  # refuse bad options before reading
    snapshot, names = read_operator_snapshot(loads, current, workers)
    # One plan, not one of many small steps: only the price of a move holds `variance` back.
    config = OperatorConfig(balance, exchange, correlation, capacity, max_moves=len(names))
    warm_up(algorithm)
    started = perf_counter()
    planned = plan_operators(algorithm, snapshot, config, np.random.default_rng(seed))
    seconds = perf_counter() - started
    result: dict[str, Any] = {
        "algorithm": algorithm,
        "workers": workers,
        "operators": len(names),
        "samples": snapshot.samples.shape[1],
        **asdict(measure_operator_plan(snapshot, planned.placement)),
        "plan_seconds": seconds,
        "verdicts": verdicts_to_json(planned.verdicts),
    }
    if placement_out:
        table = pa.table({"operator": names, "worker": planned.placement})
        write_tables({placement_out: table})
    if json:
        print_json(result)
        return
    shown = {
        name.replace("_", " "): f"{value:,.4g}" if isinstance(value, float) else str(value)
        for name, value in result.items()
        if name != "verdicts"
    }
    print_result("Operators on workers", shown, planned.verdicts)
    by_worker = np.bincount(planned.placement, weights=snapshot.load, minlength=workers)
    print_loads(by_worker, capacity)


def read_operator_snapshot(
    loads: Path, current: Path | None, workers: int
) -> "tuple[OperatorSnapshot, pa.Array]":
    """Read load series and where operators run; refuse what is ragged or contradicts itself."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from evenflow.cli.table_files import check_not_negative, number_column, read_table
    from evenflow.errors import InputError
    from evenflow.model import LoadSeries
    from evenflow.planning.operators import NOWHERE, OperatorSnapshot

    table = read_table(loads, ("operator", "sample", "load"), ("movable", "worker"))
    values = check_not_negative(number_column(table, "load", loads), "load", loads).to_numpy()
    names, row_of = _distinct_values(table["operator"], "operator", loads)
    moments, moment_of = _distinct_values(table["sample"], "sample", loads)
    # By sorted cells: ragged series may name far more cells than memory has room for.
    cells = np.sort(row_of.astype(np.int64) * len(moments) + moment_of)
    twice = cells[1:][cells[1:] == cells[:-1]]
    gaps = np.flatnonzero(cells != np.arange(len(cells)))
    if len(twice) or len(cells) < len(names) * len(moments):
        cell = int(twice[0]) if len(twice) else int(gaps[0]) if len(gaps) else len(cells)
        found = f"{int((cells == cell).sum())} loads" if len(twice) else "no load"
        raise InputError(
            f"{loads}: operator {names[cell // len(moments)]} has {found} in sample "
            f"{moments[cell % len(moments)]}; every operator needs one load in every sample"
        )
    samples = np.zeros((len(names), len(moments)))
    samples[row_of, moment_of] = values
    movable = np.ones(len(names), dtype=bool)
    placement = np.full(len(names), NOWHERE, dtype=np.int32)
    if "movable" in table.column_names:
        flags = _boolean_column(table["movable"], loads)
        movable = _value_per_operator(flags, row_of, names, "movable", loads).astype(bool)
    if "worker" in table.column_names:
        where = _optional_workers(table["worker"], loads, workers)
        placement = _value_per_operator(where, row_of, names, "worker", loads).astype(np.int32)
    if current:
        rows = read_table(current, ("operator", "worker"))
        known, known_row = _distinct_values(rows["operator"], "operator", current)
        if len(known) < len(rows):
            raise InputError(f"{current}: names an operator twice")
        where = np.empty(len(rows), dtype=np.int64)
        where[known_row] = _optional_workers(rows["worker"], current, workers)
        at = pc.index_in(names.cast(pa.string()), value_set=known.cast(pa.string())).fill_null(-1)
        found_at = at.to_numpy()
        if (found_at < 0).all():
            raise InputError(f"{current}: names none of the operators of {loads}")
        placement = np.where(found_at >= 0, where[found_at], NOWHERE).astype(np.int32)
    series = LoadSeries(tuple(map(str, names.to_pylist())), samples, movable)
    return OperatorSnapshot(series, workers, placement), names


def _distinct_values(column: "pa.ChunkedArray", name: str, path: Path) -> "tuple[pa.Array, Any]":
    """Return the distinct values in order, and for each row which one it has."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from evenflow.cli.table_files import key_column
    from evenflow.errors import InputError

    values = key_column(column, path)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_nested(values.type):
        raise InputError(f"{path}: column {name} must hold names or numbers, got {values.type}")
    if values.null_count:
        row = values.is_null().to_pylist().index(True) + 1
        raise InputError(f"{path}: column {name} has no value in row {row}")
    distinct = pc.unique(values)
    distinct = distinct.take(pc.sort_indices(distinct))
    return distinct, pc.index_in(values, value_set=distinct).to_numpy()


def _boolean_column(column: "pa.ChunkedArray", path: Path) -> Any:
    """Return true and false as they are commonly written."""
    import numpy as np

    from evenflow.errors import InputError

    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    read = [words.get(str(value).strip().lower()) for value in column.to_pylist()]
    if None in read:
        row = read.index(None)
        raise InputError(
            f"{path}: column movable must be true or false, got {column[row]} in row {row + 1}"
        )
    return np.array(read)


def _optional_workers(column: "pa.ChunkedArray", path: Path, workers: int) -> Any:
    """Return workers, -1 where the cell is empty: an operator that runs nowhere yet."""
    import numpy as np

    from evenflow.errors import InputError

    result = np.full(len(column), -1, dtype=np.int64)
    for row, value in enumerate(column.to_pylist()):
        text = "" if value is None else str(value).strip()
        if not text:
            continue
        is_number = text.isascii() and text.replace(".", "", 1).isdigit()
        number = float(text) if is_number else -1.0
        if not (number.is_integer() and 0 <= number < workers):
            raise InputError(
                f"{path}: unknown worker {text} in row {row + 1}; workers are 0..{workers - 1}"
            )
        result[row] = int(number)
    return result


def _value_per_operator(
    values: Any, row_of: Any, names: "pa.Array", column: str, path: Path
) -> Any:
    """Return one value for each operator; refuse operators that have several."""
    import numpy as np

    from evenflow.errors import InputError

    result = np.zeros(len(names), dtype=values.dtype)
    result[row_of] = values
    differs = np.flatnonzero(result[row_of] != values)
    if len(differs):
        name = names[int(row_of[differs[0]])]
        raise InputError(f"{path}: operator {name} has several values of {column}; give it one")
    return result
