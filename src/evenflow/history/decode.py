"""From rows back to snapshots, decisions and outcomes."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import (
    Decision,
    Judgement,
    KeyStats,
    Move,
    Outcome,
    Plan,
    QueryLoad,
    RoutingTable,
    Snapshot,
    Verdict,
)
from evenflow.model.arrays import Floats

_NUMBERS = {
    "rows_in": np.int64,
    "rows_out": np.int64,
    "cpu_seconds": np.float64,
    "load": np.float64,
    "state_bytes": np.float64,
}

Plans = Mapping[str, Plan]


def plans_of(rows: pa.Table) -> dict[str, Plan]:
    """Read plans by name."""
    return {
        row["plan"]: Plan(
            row["workers"],
            {entry["query"]: entry["worker"] for entry in row["placement"]},
            {
                entry["query"]: RoutingTable.of(
                    np.array(entry["hashes"], dtype=np.uint64), entry["owners"]
                )
                for entry in row["tables"]
            },
            frozenset(row["drained"]),
        )
        for row in rows.to_pylist()
    }


def snapshots_of(tables: Mapping[str, pa.Table], plans: Plans) -> list[Snapshot]:
    """Read snapshots in the order of their batches."""
    statistics = dict(_groups(tables["statistics"], "batch"))
    keys = dict(_groups(tables["keys"], "batch"))
    traffic = dict(_groups(tables["traffic"], "batch"))
    found = []
    for row in tables["batches"].to_pylist():
        batch, plan = row["batch"], plans[row["plan"]]
        stats = dict(_groups(keys[batch], "query")) if batch in keys else {}
        queries = _groups(statistics[batch], "query") if batch in statistics else ()
        sent = _groups(traffic[batch], "stream") if batch in traffic else ()
        found.append(
            Snapshot(
                batch=batch,
                at=row["at"],
                seconds=row["seconds"],
                plan=plan,
                following=plans[row["following"]],
                drain=frozenset(row["drain"]),
                queries={
                    name: _query(rows, stats.get(name), plan.workers) for name, rows in queries
                },
                shipped={
                    stream: _spread(rows, "bytes", np.float64, plan.workers)
                    for stream, rows in sent
                },
                worker_seconds=np.array(row["worker_seconds"], dtype=np.float64),
            )
        )
    return found


def decisions_of(rows: pa.Table, plans: Plans) -> list[Decision]:
    """Read decisions."""
    return [
        Decision(
            batch=row["batch"],
            at=row["at"],
            trigger=row["trigger"],
            reason=row["reason"],
            message=row["message"],
            before=Judgement(**row["before"]),
            predicted=None if row["predicted"] is None else Judgement(**row["predicted"]),
            plan=None if row["plan"] is None else plans[row["plan"]],
            target=None if row["target"] is None else plans[row["target"]],
            moves=tuple(Move(**move) for move in row["moves"]),
            moved_bytes=row["moved_bytes"],
            verdicts=tuple(Verdict(**verdict) for verdict in row["verdicts"]),
        )
        for row in rows.to_pylist()
    ]


def outcomes_of(rows: pa.Table) -> list[Outcome]:
    """Read outcomes."""
    return [
        Outcome(**{**row, "measured": Judgement(**row["measured"])}) for row in rows.to_pylist()
    ]


def _query(rows: pa.Table, keys: pa.Table | None, workers: int) -> QueryLoad:
    numbers = {name: _spread(rows, name, dtype, workers) for name, dtype in _NUMBERS.items()}
    first = rows.slice(0, 1).to_pylist()[0]
    return QueryLoad(
        streams=tuple(first["streams"]),
        **numbers,
        keys=None if keys is None else _key_stats(keys),
        pinned=first["pinned"],
        keyable=first["keyable"],
        publishes=first["publishes"],
    )


def _key_stats(rows: pa.Table) -> KeyStats:
    is_rest = pc.is_null(rows["hash"])
    rest, heavy = rows.filter(is_rest), rows.filter(pc.invert(is_rest))
    return KeyStats(
        heavy["hash"].to_numpy(),
        heavy["worker"].to_numpy(),
        heavy["cost"].to_numpy(),
        heavy["state_bytes"].to_numpy(),
        tuple(heavy["name"].to_pylist()),
        rest["keys"].to_numpy(),
        rest["cost"].to_numpy(),
        rest["state_bytes"].to_numpy(),
    )


def _spread(rows: pa.Table, column: str, dtype: Any, workers: int) -> Any:
    """Return a column as an array over workers."""
    spread: Floats = np.zeros(workers, dtype=dtype)
    spread[rows["worker"].to_numpy()] = rows[column].to_numpy()
    return spread


def _groups(rows: pa.Table, column: str) -> Iterator[tuple[Any, pa.Table]]:
    """Give the runs of equal values: rows stand together as they were written."""
    if not rows.num_rows:
        return
    values = rows[column].combine_chunks().dictionary_encode()
    codes = values.indices.to_numpy()
    begins = np.flatnonzero(np.diff(codes, prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(codes)], strict=True):
        yield values.dictionary[codes[begin]].as_py(), rows.slice(begin, end - begin)
