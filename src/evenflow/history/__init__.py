"""What was observed, decided and achieved, kept beside the checkpoint as Parquet."""

from evenflow.history.history import History, has_history, read_history

__all__ = ["History", "has_history", "read_history"]
