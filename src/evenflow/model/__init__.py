"""Frozen values that cross borders: loads, routing tables, plans, moves, verdicts. No I/O."""

from evenflow.model.hashing import hash_keys, jump
from evenflow.model.load import KeyLoads, LoadSeries
from evenflow.model.plan import Move, Plan, moves
from evenflow.model.routing import RoutingTable
from evenflow.model.verdict import Verdict

__all__ = [
    "KeyLoads",
    "LoadSeries",
    "Move",
    "Plan",
    "RoutingTable",
    "Verdict",
    "hash_keys",
    "jump",
    "moves",
]
