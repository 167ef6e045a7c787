"""Envelopes carry rows from the router tasks to the worker tasks within one micro-batch.

Spark's columns of an envelope are the worker it goes to, its kind, its stream and a blob.
"""

from dataclasses import dataclass

import pyarrow as pa

ENVELOPE_COLUMNS = "worker int, kind string, name string, blob binary"
EMPTY_ENVELOPE_COLUMNS = (
    "0 AS worker",
    "value AS kind",
    "value AS name",
    "CAST(value AS BINARY) AS blob",
)
ENVELOPE_SCHEMA = pa.schema(
    [("worker", pa.int32()), ("kind", pa.string()), ("name", pa.string()), ("blob", pa.binary())]
)
CHUNK_FOLDER = "chunks"
# Poison rows carry the columns that pruning removed in this one.
POISON_REST_COLUMN = "_evenflow_rest"


@dataclass(frozen=True, slots=True)
class Envelope:
    """One envelope, as the worker that it is addressed to reads it."""

    kind: str
    stream: str
    blob: bytes


def for_query(rows: pa.Table, uid: str, feed: int = -1) -> pa.Table:
    """Label rows as meant for one query; partial rows also with the feed that they come from."""
    return rows.replace_schema_metadata({"query": uid, "feed": str(feed)})


def query_and_feed(rows: pa.Table) -> tuple[str, int]:
    """Read back what `for_query` noted."""
    label = rows.schema.metadata
    return label[b"query"].decode(), int(label[b"feed"])
