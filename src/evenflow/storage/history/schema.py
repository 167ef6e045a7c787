"""The columns of the history, one kind of row per folder: `HistoryKind` says what a row is."""

import pyarrow as pa

from evenflow.model import HistoryKind


def _columns(text: str, **structs: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """Parse `name type, ...`; a type is an Arrow type or a struct, with [] for a list of it.

    >>> _columns("batch int64, drain int32[]")
    [('batch', DataType(int64)), ('drain', ListType(list<item: int32>))]
    """
    columns = []
    for column in text.split(", "):
        name, kind = column.split()
        element = kind.removesuffix("[]")
        value = structs[element] if element in structs else pa.type_for_alias(element)
        columns.append((name, pa.list_(value) if kind.endswith("[]") else value))
    return columns


_STRUCTS = {
    name: pa.struct(_columns(text))
    for name, text in {
        "balance": "imbalance double, max_load double, mean_load double, deviation double, "
        "correlation double, shipped_bytes double",
        "move": "query string, before int32, after int32, key_hash uint64, owners_before int32[], "
        "owners_after int32[]",
        "transfer": "query string, before int32, after int32, bytes int64",
        "verdict": "code string, subject string, message string, reachable double",
        "placement": "query string, worker int32",
        "table": "query string, hashes uint64[], owners int32[]",
        "split": "query string, key_hash uint64, owners int32[], fragmented string",
    }.items()
}

# In `keys`, `fixed` is the cost of light keys that no row causes, and `rows` those of a heavy key.
SCHEMAS = {
    kind: pa.schema(_columns(text, **_STRUCTS))
    for kind, text in {
        HistoryKind.BATCHES: "batch int64, at double, seconds double, plan string, "
        "following string, drain int32[], worker_seconds double[], handed transfer[]",
        HistoryKind.STATISTICS: "batch int64, query string, worker int32, rows_in int64, "
        "rows_out int64, cpu_seconds double, load double, state_bytes double, streams string[], "
        "pinned bool, keyable bool, publishes bool, split_streams string[]",
        HistoryKind.KEYS: "batch int64, query string, worker int32, hash uint64, name string, "
        "keys int64, cost double, state_bytes double, fixed double, rows int64, "
        "shared_cost double, split_by string",
        HistoryKind.TRAFFIC: "batch int64, stream string, worker int32, bytes double",
        HistoryKind.PLANS: "plan string, workers int32, drained int32[], placement placement[], "
        "tables table[], splits split[]",
        HistoryKind.DECISIONS: "batch int64, at double, trigger string, reason string, "
        "message string, before balance, predicted balance, plan string, target string, "
        "moves move[], moved_bytes double, verdicts verdict[], arrived placement[], "
        "move_price double, proposal int64",
        HistoryKind.OUTCOMES: "batch int64, decision int64, measured balance, handed_bytes int64, "
        "pause_seconds double, duration_seconds double, handed transfer[]",
    }.items()
}
