"""Decodes rows of the history to snapshots, decisions and outcomes."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import (
    BalanceMetrics,
    Decision,
    HistoryKind,
    KeySplit,
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
from evenflow.model.snapshot import WORKER_FIELDS

UNKNOWN_KEY_ROWS = 1_000_000  # rows of a heavy key in histories without that column

PlansByFingerprint = Mapping[str, Plan]


def decode_plans(rows: pa.Table) -> dict[str, Plan]:
    """Return plans by fingerprint."""
    return {
        row["plan"]: Plan(
            row["workers"],
            {entry["query"]: entry["worker"] for entry in row["placement"]},
            {
                entry["query"]: RoutingTable.from_entries(
                    np.array(entry["hashes"], dtype=np.uint64),
                    entry["owners"],
                    _decode_splits(row["splits"] or (), entry["query"]),
                )
                for entry in row["tables"]
            },
            frozenset(row["drained"]),
        )
        for row in rows.to_pylist()
    }


def _decode_splits(splits: Iterable[Mapping[str, Any]], query: str) -> list[KeySplit]:
    return [
        KeySplit(split["key_hash"], tuple(split["owners"]), split["fragmented"])
        for split in splits
        if split["query"] == query
    ]


def decode_snapshots(
    tables: Mapping[HistoryKind, pa.Table], plans: PlansByFingerprint
) -> list[Snapshot]:
    """Return snapshots in the order of their batches."""
    statistics, keys, traffic = (
        dict(_split_by(tables[kind], "batch"))
        for kind in (HistoryKind.STATISTICS, HistoryKind.KEYS, HistoryKind.TRAFFIC)
    )
    snapshots = []
    for row in tables[HistoryKind.BATCHES].to_pylist():
        batch, plan = row["batch"], plans[row["plan"]]
        stats = {
            query: _decode_key_stats(rows)
            for query, rows in (_split_by(keys[batch], "query") if batch in keys else ())
        }
        snapshots.append(
            Snapshot(
                batch=batch,
                at=row["at"],
                interval_seconds=row["seconds"],
                plan=plan,
                next_plan=plans[row["following"]],
                workers_to_drain=frozenset(row["drain"]),
                queries=_decode_queries(statistics.get(batch), stats, plan.workers),
                shipped_bytes=_decode_shipped(traffic.get(batch), plan.workers),
                worker_cpu_seconds=np.array(row["worker_seconds"], dtype=np.float64),
                transfers=_transfers(row),
            )
        )
    return snapshots


def _decode_queries(
    rows: pa.Table | None, keys: Mapping[str, KeyStats], workers: int
) -> dict[str, QueryLoad]:
    """Return the queries of one batch; columns are converted as a whole, which is faster."""
    if rows is None:
        return {}
    names, begins, run = _runs(rows, "query")
    by_worker = {name: _matrix_by_worker(rows, name, run, workers) for name in WORKER_FIELDS}
    first = rows.take(pa.array(begins))
    columns = ("streams", "pinned", "keyable", "publishes", "split_streams")
    values = zip(*(first[column].to_pylist() for column in columns), strict=True)
    return {
        name: QueryLoad(
            streams=tuple(streams),
            **{column: by_worker[column][row] for column in WORKER_FIELDS},
            keys=keys.get(name),
            pinned=pinned,
            keyable=keyable,
            publishes=publishes,
            split_streams=tuple(split_streams or ()),  # null in older histories
        )
        for row, (name, (streams, pinned, keyable, publishes, split_streams)) in enumerate(
            zip(names, values, strict=True)
        )
    }


def _decode_shipped(rows: pa.Table | None, workers: int) -> dict[str, Floats]:
    if rows is None:
        return {}
    streams, _, run = _runs(rows, "stream")
    return dict(zip(streams, _matrix_by_worker(rows, "bytes", run, workers), strict=True))


def decode_decisions(rows: pa.Table, plans: PlansByFingerprint) -> list[Decision]:
    """Return decisions in the order of their batches."""
    return [_decode_decision(row, plans) for row in rows.to_pylist()]


def _decode_decision(row: dict[str, Any], plans: PlansByFingerprint) -> Decision:
    plan, target, predicted = row["plan"], row["target"], row["predicted"]
    verdicts = (verdict | {"code": VerdictCode(verdict["code"])} for verdict in row["verdicts"])
    decoded = {
        "trigger": Trigger(row["trigger"]),
        "reason": Reason(row["reason"]),
        "before": BalanceMetrics(**row["before"]),
        "predicted": None if predicted is None else BalanceMetrics(**predicted),
        "plan": None if plan is None else plans[plan],
        "target": None if target is None else plans[target],
        "moves": tuple(_decode_move(move) for move in row["moves"]),
        "verdicts": tuple(Verdict(**verdict) for verdict in verdicts),
        "arrived": {entry["query"]: entry["worker"] for entry in row["arrived"] or ()},
    }
    return Decision(**row | decoded)


def _decode_move(move: Mapping[str, Any]) -> Move:
    """Return a move; those of older histories have no owners."""
    owners = {name: tuple(move[name] or ()) for name in ("owners_before", "owners_after")}
    return Move(**{**move, **owners})


def decode_outcomes(rows: pa.Table) -> list[Outcome]:
    """Return outcomes in the order of their batches."""
    return [
        Outcome(**row | {"measured": BalanceMetrics(**row["measured"]), "handed": _transfers(row)})
        for row in rows.to_pylist()
    ]


def _transfers(row: Mapping[str, Any]) -> tuple[Transfer, ...]:
    """Return the transfers of a row; histories of older versions have none."""
    return tuple(Transfer(**transfer) for transfer in row["handed"] or ())


def _decode_key_stats(rows: pa.Table) -> KeyStats:
    is_rest = pc.is_null(rows["hash"])
    rest, heavy = rows.filter(is_rest), rows.filter(pc.invert(is_rest))
    return KeyStats(
        hashes=heavy["hash"].to_numpy(),
        owner=heavy["worker"].to_numpy(),
        cost=heavy["cost"].to_numpy(),
        state_bytes=heavy["state_bytes"].to_numpy(),
        names=tuple(heavy["name"].to_pylist()),
        rest_keys=rest["keys"].to_numpy(),
        rest_cost=rest["cost"].to_numpy(),
        rest_state_bytes=rest["state_bytes"].to_numpy(),
        rest_fixed_cost=rest["fixed"].fill_null(0.0).to_numpy(),  # null in older histories
        rows=heavy["rows"].fill_null(UNKNOWN_KEY_ROWS).to_numpy(),
        shared_cost=heavy["shared_cost"].fill_null(0.0).to_numpy(),
        split_by=tuple(heavy["split_by"].fill_null("").to_pylist()),
    )


def _matrix_by_worker(rows: pa.Table, column: str, run: Indices, workers: int) -> Any:
    """Return a column as an array of (run, worker), given the run of each row."""
    values = rows[column].to_numpy()
    matrix = np.zeros((int(run[-1]) + 1, workers), dtype=values.dtype)
    matrix[run, rows["worker"].to_numpy()] = values
    matrix.flags.writeable = False  # so that its rows are not copied
    return matrix


def _runs(rows: pa.Table, column: str) -> tuple[list[Any], Indices, Indices]:
    """Return the value and first row of each run of equal values, and the run of each row."""
    values = rows[column].combine_chunks().dictionary_encode()
    codes = values.indices.to_numpy()
    changes = np.diff(codes, prepend=-1) != 0
    begins = np.flatnonzero(changes)
    names = values.dictionary.take(pa.array(codes[begins])).to_pylist()
    return names, begins, np.cumsum(changes) - 1


def _split_by(rows: pa.Table, column: str) -> Iterator[tuple[Any, pa.Table]]:
    """Yield the rows of each value; equal values are adjacent."""
    if rows.num_rows:
        names, begins, _ = _runs(rows, column)
        for name, begin, end in zip(names, begins, [*begins[1:], len(rows)], strict=True):
            yield name, rows.slice(begin, end - begin)
