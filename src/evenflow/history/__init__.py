"""What was observed, decided and achieved, kept beside the checkpoint as Parquet."""

from evenflow.history.history import History, read_history

__all__ = ["History", "read_history"]
