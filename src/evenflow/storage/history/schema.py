"""The columns of the history, one kind of row per folder: `HistoryKind` says what a row is."""

import pyarrow as pa

from evenflow.model import HistoryKind

WORKER_COLUMNS = ("rows_in", "rows_out", "cpu_seconds", "load", "state_bytes")

_INT32, _INT64, _UINT64 = pa.int32(), pa.int64(), pa.uint64()
_FLOAT64, _TEXT, _BOOL = pa.float64(), pa.string(), pa.bool_()


def _struct(**columns: pa.DataType) -> pa.DataType:
    return pa.struct(columns.items())


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(columns.items())


_BALANCE_METRICS = _struct(
    imbalance=_FLOAT64,
    max_load=_FLOAT64,
    mean_load=_FLOAT64,
    deviation=_FLOAT64,
    correlation=_FLOAT64,
    shipped_bytes=_FLOAT64,
)
_MOVE = _struct(query=_TEXT, before=_INT32, after=_INT32, key_hash=_UINT64)
_TRANSFER = _struct(query=_TEXT, before=_INT32, after=_INT32, bytes=_INT64)
_VERDICT = _struct(code=_TEXT, subject=_TEXT, message=_TEXT, reachable=_FLOAT64)
_PLACEMENT_ENTRY = _struct(query=_TEXT, worker=_INT32)
_ROUTING_TABLE = _struct(query=_TEXT, hashes=pa.list_(_UINT64), owners=pa.list_(_INT32))

SCHEMAS = {
    HistoryKind.BATCHES: _schema(
        batch=_INT64,
        at=_FLOAT64,
        seconds=_FLOAT64,
        plan=_TEXT,
        following=_TEXT,
        drain=pa.list_(_INT32),
        worker_seconds=pa.list_(_FLOAT64),
        handed=pa.list_(_TRANSFER),
    ),
    HistoryKind.STATISTICS: _schema(
        batch=_INT64,
        query=_TEXT,
        worker=_INT32,
        rows_in=_INT64,
        rows_out=_INT64,
        cpu_seconds=_FLOAT64,
        load=_FLOAT64,
        state_bytes=_FLOAT64,
        streams=pa.list_(_TEXT),
        pinned=_BOOL,
        keyable=_BOOL,
        publishes=_BOOL,
    ),
    HistoryKind.KEYS: _schema(
        batch=_INT64,
        query=_TEXT,
        worker=_INT32,
        hash=_UINT64,
        name=_TEXT,
        keys=_INT64,
        cost=_FLOAT64,
        state_bytes=_FLOAT64,
        fixed=_FLOAT64,  # cost of the light keys that does not depend on rows
        rows=_INT64,  # of a heavy key
    ),
    HistoryKind.TRAFFIC: _schema(batch=_INT64, stream=_TEXT, worker=_INT32, bytes=_FLOAT64),
    HistoryKind.PLANS: _schema(
        plan=_TEXT,
        workers=_INT32,
        drained=pa.list_(_INT32),
        placement=pa.list_(_PLACEMENT_ENTRY),
        tables=pa.list_(_ROUTING_TABLE),
    ),
    HistoryKind.DECISIONS: _schema(
        batch=_INT64,
        at=_FLOAT64,
        trigger=_TEXT,
        reason=_TEXT,
        message=_TEXT,
        before=_BALANCE_METRICS,
        predicted=_BALANCE_METRICS,
        plan=_TEXT,
        target=_TEXT,
        moves=pa.list_(_MOVE),
        moved_bytes=_FLOAT64,
        verdicts=pa.list_(_VERDICT),
        arrived=pa.list_(_PLACEMENT_ENTRY),
    ),
    HistoryKind.OUTCOMES: _schema(
        batch=_INT64,
        decision=_INT64,
        measured=_BALANCE_METRICS,
        handed_bytes=_INT64,
        pause_seconds=_FLOAT64,
        duration_seconds=_FLOAT64,
        handed=pa.list_(_TRANSFER),
    ),
}
