"""What was observed, decided and achieved, kept beside the checkpoint as Parquet."""

from evenflow.storage.history.writer import HistoryWriter, has_history, read_history

__all__ = ["HistoryWriter", "has_history", "read_history"]
