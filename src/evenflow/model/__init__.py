"""Frozen values that the packages exchange: snapshots, plans, decisions and codes. No I/O."""

from evenflow.model.codes import (
    BalancingMode,
    HistoryKind,
    MoveOrder,
    ProposalState,
    Reason,
    Trigger,
    VerdictCode,
)
from evenflow.model.decision import BalanceMetrics, Decision, Outcome, Verdict
from evenflow.model.hashing import hash_keys, home_workers, jump_hash
from evenflow.model.plan import (
    EVERYWHERE,
    Move,
    Plan,
    StreamsByQuery,
    Transfer,
    arrived_queries,
    may_move_state,
    moves_between,
    moves_from_worker,
    place_on_fewest_queries,
)
from evenflow.model.planner_loads import KeyLoads, LoadSeries
from evenflow.model.proposal import Proposal
from evenflow.model.routing import KeySplit, RoutingTable
from evenflow.model.snapshot import HotKey, KeyStats, QueryLoad, Snapshot, hot_keys, imbalance
from evenflow.model.traffic import round_robin_bytes, stream_bytes, total_shipped_bytes

__all__ = [
    "EVERYWHERE",
    "BalanceMetrics",
    "BalancingMode",
    "Decision",
    "HistoryKind",
    "HotKey",
    "KeyLoads",
    "KeySplit",
    "KeyStats",
    "LoadSeries",
    "Move",
    "MoveOrder",
    "Outcome",
    "Plan",
    "Proposal",
    "ProposalState",
    "QueryLoad",
    "Reason",
    "RoutingTable",
    "Snapshot",
    "StreamsByQuery",
    "Transfer",
    "Trigger",
    "Verdict",
    "VerdictCode",
    "arrived_queries",
    "hash_keys",
    "home_workers",
    "hot_keys",
    "imbalance",
    "jump_hash",
    "may_move_state",
    "moves_between",
    "moves_from_worker",
    "place_on_fewest_queries",
    "round_robin_bytes",
    "stream_bytes",
    "total_shipped_bytes",
]
