"""Small snapshots and plans for the view-model."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.model import (
    BalanceMetrics,
    Decision,
    KeyStats,
    Plan,
    QueryLoad,
    Reason,
    RoutingTable,
    Snapshot,
    Trigger,
    hash_keys,
)

EMPTY = pa.schema([("ts", pa.timestamp("us", "UTC")), ("symbol", pa.string())])


@dataclass(frozen=True)
class Hosted:
    name: str
    streams: tuple[str, ...] = ("trades",)
    key: tuple[str, ...] | None = None
    pin: int | None = None
    publish: bool = False
    form: str = "query"
    text: str = "SELECT"
    kind: str = "stateless"
    schema: Any = EMPTY
    inferred: Any = None
    parameters: Any = None


@dataclass(frozen=True)
class StreamSpec:
    schema: Any = EMPTY
    time: str = "ts"
    derived: bool = False


@dataclass
class World:
    """Whole queries on workers; `keyed` has one heavy key in its table."""

    plan: Plan = field(
        default_factory=lambda: Plan(
            3, {"a": 0, "b": 0}, {"k": RoutingTable.from_entries(hash_keys(pa.array(["hot"])), [1])}
        )
    )
    queries: dict[str, Hosted] = field(
        default_factory=lambda: {
            "a": Hosted("a"),
            "b": Hosted("b"),
            "k": Hosted("k", key=("symbol",)),
        }
    )

    def snapshot(self, batch: int = 0, loads: Any = (1.0, 0.0, 0.0), **more: Any) -> Snapshot:
        queries = {"a": load(loads), "k": load((0.0, 0.6, 0.2), keys=hot_key())}
        shipped = {"trades": np.array([100.0, 30.0, 10.0])}
        fields = {"queries": queries, "shipped_bytes": shipped, **more}
        return Snapshot(batch, 1000.0 + batch, 2.0, self.plan, self.plan, **fields)


def load(loads: Any, **more: Any) -> QueryLoad:
    values = np.array(loads)
    rows = (values * 100).astype(int)
    return QueryLoad(("trades",), rows, rows // 2, values, values, values * 10, **more)


def hot_key() -> KeyStats:
    return KeyStats(
        hashes=hash_keys(pa.array(["hot"])),
        owner=np.array([1]),
        cost=np.array([0.5]),
        state_bytes=np.array([5.0]),
        names=("hot",),
        rest_keys=np.array([0, 3, 4]),
        rest_cost=np.array([0.0, 0.1, 0.2]),
        rest_state_bytes=np.zeros(3),
        rest_fixed_cost=np.zeros(3),
        rows=np.array([50]),
    )


def decision(batch: int, **more: Any) -> Decision:
    before = BalanceMetrics(1.5, 3.0, 2.0)
    return Decision(
        batch, 1000.0 + batch, Trigger.IMBALANCE, Reason("planned"), "why", before, **more
    )
