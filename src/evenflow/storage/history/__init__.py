"""Recorded snapshots, decisions and outcomes of a checkpoint, as Parquet files."""

from evenflow.storage.history.reader import RecordedHistory, has_history, read_history
from evenflow.storage.history.writer import HistoryWriter

__all__ = ["HistoryWriter", "RecordedHistory", "has_history", "read_history"]
