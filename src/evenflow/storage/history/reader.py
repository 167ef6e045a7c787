"""Reads the history of a checkpoint, also while a flow is writing it."""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import InputError
from evenflow.model import Decision, HistoryKind, Outcome, Snapshot
from evenflow.storage.file_store import FileStore
from evenflow.storage.history import decode
from evenflow.storage.history.encode import TablesByKind
from evenflow.storage.history.files import PENDING_FOLDER, HistoryFile, list_files, read_pending
from evenflow.storage.history.schema import SCHEMAS


class RecordedHistory(NamedTuple):
    """The recorded batches, oldest first."""

    snapshots: list[Snapshot]
    decisions: list[Decision]
    outcomes: list[Outcome]


def has_history(store: FileStore) -> bool:
    """Return whether a checkpoint has recorded batches."""
    return bool(store.list_names(PENDING_FOLDER) or list_files(store, HistoryKind.BATCHES)[0])


def read_history(checkpoint: str | FileStore, last: int | None = None) -> RecordedHistory:
    """Read the history of a checkpoint, or its last batches; the flow may be running."""
    store = FileStore(checkpoint) if isinstance(checkpoint, str) else checkpoint
    for _ in range(3):
        try:
            return _read_all(store, last)
        except FileNotFoundError:  # merged into another file since it was listed
            continue
    return _read_all(store, last)


def _read_all(store: FileStore, last: int | None) -> RecordedHistory:
    # Pending batches first: a batch that becomes Parquet meanwhile is then read twice, not never.
    pending = read_pending(store)
    files = {kind: list_files(store, kind)[0] for kind in SCHEMAS}
    batches = [*(file.last_batch for file in files[HistoryKind.BATCHES]), *pending]
    if not batches:
        raise InputError(
            f"{store.uri} has no recorded history; give the checkpoint of a flow that was "
            "started with balancing"
        )
    first = 0 if last is None else max(batches) - last + 1
    compacted = files[HistoryKind.BATCHES]
    pending = {b: rows for b, rows in pending.items() if not any(f.covers(b) for f in compacted)}
    tables = {kind: _read_rows(store, kind, files[kind], pending, first) for kind in SCHEMAS}
    plans = decode.decode_plans(tables[HistoryKind.PLANS])
    return RecordedHistory(
        decode.decode_snapshots(tables, plans),
        decode.decode_decisions(tables[HistoryKind.DECISIONS], plans),
        decode.decode_outcomes(tables[HistoryKind.OUTCOMES]),
    )


def _read_rows(
    store: FileStore,
    kind: HistoryKind,
    files: list[HistoryFile],
    pending: Mapping[int, TablesByKind],
    first: int,
) -> pa.Table:
    """Return the rows from a batch on; all plans, which are stored where they were first used."""
    tables = [
        file.read(store) for file in files if file.last_batch >= first or kind == HistoryKind.PLANS
    ]
    tables += [
        rows[kind]
        for batch, rows in sorted(pending.items())
        if kind in rows and not any(file.covers(batch) for file in files)
    ]
    # Rows that an older version left pending lack the columns added since.
    rows = pa.concat_tables([SCHEMAS[kind].empty_table(), *tables], promote_options="permissive")
    if "batch" not in rows.column_names or not first:
        return rows
    return rows.filter(pc.greater_equal(rows["batch"], first))
