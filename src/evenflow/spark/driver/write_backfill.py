"""Store the rows of a backfill in the checkpoint, in the order of their times."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Union

from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema

from evenflow.errors import InputError
from evenflow.names import join_names
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.backfill import BackfillPart, in_order, list_file
from evenflow.spark.protocol.ledger import Ledger
from evenflow.spark.protocol.registry import Hosted, Registry, StreamSpec
from evenflow.spark.worker.backfill_task import STORED_PART_COLUMNS, StoreBackfillTask
from evenflow.storage import records
from evenflow.storage.file_store import FileStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Frames = Mapping[str, "DataFrame"]
BackfillRows = Union["DataFrame", Frames]


class Backfills:
    """What the queries of a flow take first, as it is declared."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._frames: dict[str, Frames] = {}

    def declare(self, query: Hosted, rows: BackfillRows | None, registry: Registry) -> None:
        """Note the backfill of a query, if it has one, or refuse it."""
        if rows is not None:
            self._frames[query.name] = backfill_frames(query.name, rows, query.streams, registry)

    def store_for_new(self, ledger: Ledger, registry: Registry) -> Registry:
        """Store all of them unless the checkpoint exists; return the registry that names them."""
        for name, frames in self._frames.items() if ledger.last_entry() is None else ():
            stored = write_backfill(self._store, name, frames, registry)
            registry = registry.with_backfill(name, stored)
        return registry

    def store(self, submission: Submission, registry: Registry) -> Submission:
        """Store that of one query, if it has one; return its submission, which names it."""
        frames = self._frames.get(submission.name)
        if frames is None:
            return submission
        stored = write_backfill(self._store, submission.name, frames, registry)
        return replace(submission, backfill=stored)


def backfill_frames(
    name: str, backfill: BackfillRows, streams: Iterable[str], registry: Registry
) -> "Frames":
    """Return the rows by stream, in the columns of the streams, or refuse them."""
    streams = list(streams)
    if not isinstance(backfill, Mapping):
        if len(streams) > 1:
            raise InputError(
                f"{name!r} reads {join_names(streams)}; give its backfill by stream: "
                f"{{{streams[0]!r}: ...}}"
            )
        backfill = {streams[0]: backfill}
    if unknown := [stream for stream in backfill if stream not in streams]:
        raise InputError(
            f"the backfill of {name!r} has rows of {join_names(unknown)}, but it reads "
            f"{join_names(streams)}"
        )
    return {
        stream: _conform(name, frame, stream, registry.streams[stream])
        for stream, frame in sorted(backfill.items())
    }


def _conform(name: str, frame: "DataFrame", stream: str, spec: StreamSpec) -> "DataFrame":
    if frame.isStreaming:
        raise InputError(f"the backfill of {name!r} is a streaming DataFrame; use spark.read")
    there = {column.lower() for column in frame.columns}
    if missing := [column for column in spec.schema.names if column.lower() not in there]:
        raise InputError(
            f"the backfill of {name!r} lacks {join_names(missing)}, columns of {stream!r}; add "
            "them, for example as NULL"
        )
    try:
        return frame.to(from_arrow_schema(spec.schema))
    except PySparkException as error:
        raise InputError(
            f"the backfill of {name!r} does not have the columns of {stream!r}: "
            f"{str(error).splitlines()[0]}"
        ) from None


def write_backfill(store: FileStore, name: str, frames: Frames, registry: Registry) -> str | None:
    """Store a query's backfill; return the name of it, None if it has no rows."""
    stored = uuid.uuid4().hex
    parts: list[BackfillPart] = []
    for stream, frame in frames.items():
        spec = registry.streams[stream]
        task = StoreBackfillTask(
            store.uri, store.options, stored, stream, spec.schema, spec.time, store.power_safe
        )
        found = frame.orderBy(spec.time).mapInArrow(task, STORED_PART_COLUMNS).collect()
        if invalid := sum(row.invalid for row in found):
            raise InputError(
                f"{invalid:,} rows of the backfill of {name!r} have no valid {spec.time!r}, the "
                f"event time of {stream!r}; leave them out"
            )
        parts += [records.decode(bytes(row.part), BackfillPart) for row in found if row.part]
    if not parts:
        return None
    delays_us = {stream: registry.streams[stream].delay_us for stream in frames}
    store.write_record(list_file(stored), in_order(parts, delays_us))
    return stored
