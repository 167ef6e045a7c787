"""Frozen values that cross borders: loads, routing tables, plans, moves, verdicts. No I/O."""

from evenflow.model.decision import Decision, Judgement, Outcome
from evenflow.model.hashing import hash_keys, home, jump
from evenflow.model.hot_keys import HotKey, hot_keys
from evenflow.model.load import KeyLoads, LoadSeries
from evenflow.model.plan import (
    EVERYWHERE,
    Handed,
    Move,
    Plan,
    arrivals,
    moves,
    moves_state,
    on_fewest,
)
from evenflow.model.routing import RoutingTable
from evenflow.model.snapshot import KeyStats, QueryLoad, Snapshot, imbalance
from evenflow.model.traffic import round_robin_bytes, shipped_bytes, stream_bytes
from evenflow.model.verdict import Verdict

__all__ = [
    "EVERYWHERE",
    "Decision",
    "Handed",
    "HotKey",
    "Judgement",
    "KeyLoads",
    "KeyStats",
    "LoadSeries",
    "Move",
    "Outcome",
    "Plan",
    "QueryLoad",
    "RoutingTable",
    "Snapshot",
    "Verdict",
    "arrivals",
    "hash_keys",
    "home",
    "hot_keys",
    "imbalance",
    "jump",
    "moves",
    "moves_state",
    "on_fewest",
    "round_robin_bytes",
    "shipped_bytes",
    "stream_bytes",
]
