"""From rows back to snapshots, decisions and outcomes."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import (
    BalanceMetrics,
    Decision,
    KeyStats,
    Move,
    Outcome,
    Plan,
    QueryLoad,
    Reason,
    RoutingTable,
    Snapshot,
    Transfer,
    Trigger,
    Verdict,
    VerdictCode,
)
from evenflow.model.arrays import Floats, Indices

UNKNOWN_KEY_ROWS = 1_000_000  # rows of a key in records that do not tell them
_WORKER_COLUMNS = ("rows_in", "rows_out", "cpu_seconds", "load", "state_bytes")

PlansByFingerprint = Mapping[str, Plan]


def decode_plans(rows: pa.Table) -> dict[str, Plan]:
    """Read plans by name."""
    return {
        row["plan"]: Plan(
            row["workers"],
            {entry["query"]: entry["worker"] for entry in row["placement"]},
            {
                entry["query"]: RoutingTable.from_entries(
                    np.array(entry["hashes"], dtype=np.uint64), entry["owners"]
                )
                for entry in row["tables"]
            },
            frozenset(row["drained"]),
        )
        for row in rows.to_pylist()
    }


def decode_snapshots(tables: Mapping[str, pa.Table], plans: PlansByFingerprint) -> list[Snapshot]:
    """Read snapshots in the order of their batches."""
    parts = {
        kind: dict(_split_by(tables[kind], "batch")) for kind in ("statistics", "keys", "traffic")
    }
    found = []
    for row in tables["batches"].to_pylist():
        statistics, keys, traffic = (parts[kind].get(row["batch"]) for kind in parts)
        plan = plans[row["plan"]]
        stats = (
            {} if keys is None else {q: _decode_key_stats(k) for q, k in _split_by(keys, "query")}
        )
        found.append(
            Snapshot(
                batch=row["batch"],
                at=row["at"],
                interval_seconds=row["seconds"],
                plan=plan,
                next_plan=plans[row["following"]],
                workers_to_drain=frozenset(row["drain"]),
                queries={}
                if statistics is None
                else _decode_queries(statistics, stats, plan.workers),
                shipped_bytes={} if traffic is None else _decode_shipped(traffic, plan.workers),
                worker_cpu_seconds=np.array(row["worker_seconds"], dtype=np.float64),
                transfers=_decode_transfers(row),
            )
        )
    return found


def _decode_queries(
    rows: pa.Table, keys: Mapping[str, KeyStats], workers: int
) -> dict[str, QueryLoad]:
    """Read the queries of one batch: columns are read as a whole, queries are rows of arrays."""
    names, begins, at = _runs(rows, "query")
    spread = {name: _matrix_by_worker(rows, name, at, workers) for name in _WORKER_COLUMNS}
    first = rows.take(pa.array(begins))
    told = {name: first[name].to_pylist() for name in ("streams", "pinned", "keyable", "publishes")}
    return {
        name: QueryLoad(
            streams=tuple(told["streams"][row]),
            **{number: spread[number][row] for number in _WORKER_COLUMNS},
            keys=keys.get(name),
            pinned=told["pinned"][row],
            keyable=told["keyable"][row],
            publishes=told["publishes"][row],
        )
        for row, name in enumerate(names)
    }


def _decode_shipped(rows: pa.Table, workers: int) -> dict[str, Floats]:
    streams, _, at = _runs(rows, "stream")
    return dict(zip(streams, _matrix_by_worker(rows, "bytes", at, workers), strict=True))


def decode_decisions(rows: pa.Table, plans: PlansByFingerprint) -> list[Decision]:
    """Read decisions."""
    return [
        Decision(
            batch=row["batch"],
            at=row["at"],
            trigger=Trigger(row["trigger"]),
            reason=Reason(row["reason"]),
            message=row["message"],
            before=BalanceMetrics(**row["before"]),
            predicted=None if row["predicted"] is None else BalanceMetrics(**row["predicted"]),
            plan=None if row["plan"] is None else plans[row["plan"]],
            target=None if row["target"] is None else plans[row["target"]],
            moves=tuple(Move(**move) for move in row["moves"]),
            moved_bytes=row["moved_bytes"],
            verdicts=tuple(
                Verdict(**{**verdict, "code": VerdictCode(verdict["code"])})
                for verdict in row["verdicts"]
            ),
            arrived={placed["query"]: placed["worker"] for placed in row["arrived"] or ()},
        )
        for row in rows.to_pylist()
    ]


def decode_outcomes(rows: pa.Table) -> list[Outcome]:
    """Read outcomes."""
    return [
        Outcome(
            **{
                **row,
                "measured": BalanceMetrics(**row["measured"]),
                "handed": _decode_transfers(row),
            }
        )
        for row in rows.to_pylist()
    ]


def _decode_transfers(row: Mapping[str, Any]) -> tuple[Transfer, ...]:
    """Read what changed hands; older records do not tell."""
    return tuple(Transfer(**state) for state in row["handed"] or ())


def _decode_key_stats(rows: pa.Table) -> KeyStats:
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
        rest["fixed"].fill_null(0.0).to_numpy(),  # not in older records, nor rows
        heavy["rows"].fill_null(UNKNOWN_KEY_ROWS).to_numpy(),
    )


def _matrix_by_worker(rows: pa.Table, column: str, at: Indices, workers: int) -> Any:
    """Return a column as an array of (run, worker); `at` is the run of each row."""
    values = rows[column].to_numpy()
    spread = np.zeros((int(at[-1]) + 1, workers), dtype=values.dtype)
    spread[at, rows["worker"].to_numpy()] = values
    spread.flags.writeable = False  # so that its rows are not copied
    return spread


def _runs(rows: pa.Table, column: str) -> tuple[list[Any], Indices, Indices]:
    """Return the runs of equal values: their values, where they begin, and the run of each row."""
    values = rows[column].combine_chunks().dictionary_encode()
    codes = values.indices.to_numpy()
    begins = np.flatnonzero(np.diff(codes, prepend=-1))
    names = values.dictionary.take(pa.array(codes[begins])).to_pylist()
    return names, begins, np.cumsum(np.diff(codes, prepend=-1) != 0) - 1


def _split_by(rows: pa.Table, column: str) -> Iterator[tuple[Any, pa.Table]]:
    """Give the rows of each value: they stand together as they were written."""
    if rows.num_rows:
        names, begins, _ = _runs(rows, column)
        for name, begin, end in zip(names, begins, [*begins[1:], len(rows)], strict=True):
            yield name, rows.slice(begin, end - begin)
