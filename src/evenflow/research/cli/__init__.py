"""The commands that research adds to `evenflow`."""

from evenflow.research.cli.commands import register

__all__ = ["register"]
