"""The columns of recorded history, as people query them: one kind of row in each folder."""

import pyarrow as pa

_BALANCE_METRICS = pa.struct(
    [
        (name, pa.float64())
        for name in (
            "imbalance",
            "max_load",
            "mean_load",
            "deviation",
            "correlation",
            "shipped_bytes",
        )
    ]
)
_MOVE = pa.struct(
    [
        ("query", pa.string()),
        ("before", pa.int32()),
        ("after", pa.int32()),
        ("key_hash", pa.uint64()),
    ]
)
_TRANSFER = pa.struct(
    [
        ("query", pa.string()),
        ("before", pa.int32()),
        ("after", pa.int32()),
        ("bytes", pa.int64()),
    ]
)
_VERDICT = pa.struct(
    [
        ("code", pa.string()),
        ("subject", pa.string()),
        ("message", pa.string()),
        ("reachable", pa.float64()),
    ]
)
_PLACEMENT_ENTRY = pa.struct([("query", pa.string()), ("worker", pa.int32())])
_ROUTING_TABLE = pa.struct(
    [
        ("query", pa.string()),
        ("hashes", pa.list_(pa.uint64())),
        ("owners", pa.list_(pa.int32())),
    ]
)

SCHEMAS = {
    # One row a batch; plans by name, see `plans`.
    "batches": pa.schema(
        [
            ("batch", pa.int64()),
            ("at", pa.float64()),
            ("seconds", pa.float64()),
            ("plan", pa.string()),
            ("following", pa.string()),
            ("drain", pa.list_(pa.int32())),
            ("worker_seconds", pa.list_(pa.float64())),
            ("handed", pa.list_(_TRANSFER)),
        ]
    ),
    # One row for each batch, query and worker that has anything of it.
    "statistics": pa.schema(
        [
            ("batch", pa.int64()),
            ("query", pa.string()),
            ("worker", pa.int32()),
            ("rows_in", pa.int64()),
            ("rows_out", pa.int64()),
            ("cpu_seconds", pa.float64()),
            ("load", pa.float64()),
            ("state_bytes", pa.float64()),
            ("streams", pa.list_(pa.string())),
            ("pinned", pa.bool_()),
            ("keyable", pa.bool_()),
            ("publishes", pa.bool_()),
        ]
    ),
    # One row for each batch, keyed query and heavy key; `hash` is null for all others of a worker.
    "keys": pa.schema(
        [
            ("batch", pa.int64()),
            ("query", pa.string()),
            ("worker", pa.int32()),
            ("hash", pa.uint64()),
            ("name", pa.string()),
            ("keys", pa.int64()),
            ("cost", pa.float64()),
            ("state_bytes", pa.float64()),
            ("fixed", pa.float64()),  # of the cost of all others, what no row causes
            ("rows", pa.int64()),  # of a heavy key
        ]
    ),
    # One row for each batch, stream and worker it was sent to.
    "traffic": pa.schema(
        [
            ("batch", pa.int64()),
            ("stream", pa.string()),
            ("worker", pa.int32()),
            ("bytes", pa.float64()),
        ]
    ),
    # One row a plan, named by its content; in the first file of a block of batches that needs it.
    "plans": pa.schema(
        [
            ("plan", pa.string()),
            ("workers", pa.int32()),
            ("drained", pa.list_(pa.int32())),
            ("placement", pa.list_(_PLACEMENT_ENTRY)),
            ("tables", pa.list_(_ROUTING_TABLE)),
        ]
    ),
    "decisions": pa.schema(
        [
            ("batch", pa.int64()),
            ("at", pa.float64()),
            ("trigger", pa.string()),
            ("reason", pa.string()),
            ("message", pa.string()),
            ("before", _BALANCE_METRICS),
            ("predicted", _BALANCE_METRICS),
            ("plan", pa.string()),
            ("target", pa.string()),
            ("moves", pa.list_(_MOVE)),
            ("moved_bytes", pa.float64()),
            ("verdicts", pa.list_(_VERDICT)),
            ("arrived", pa.list_(_PLACEMENT_ENTRY)),
        ]
    ),
    "outcomes": pa.schema(
        [
            ("batch", pa.int64()),
            ("decision", pa.int64()),
            ("measured", _BALANCE_METRICS),
            ("handed_bytes", pa.int64()),
            ("pause_seconds", pa.float64()),
            ("duration_seconds", pa.float64()),
            ("handed", pa.list_(_TRANSFER)),
        ]
    ),
}
