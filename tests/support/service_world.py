"""Small snapshots and plans for the view-model."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model import (
    BalanceMetrics,
    Decision,
    KeyStats,
    Plan,
    Proposal,
    QueryLoad,
    Reason,
    RoutingTable,
    Snapshot,
    Trigger,
    hash_keys,
)
from evenflow.model.alert import Alert
from evenflow.model.progress import BatchProgress
from evenflow.model.results_page import ResultPosition, ResultsPage
from evenflow.model.scaling_advice import ScalingAdvice
from evenflow.model.tenants import TenantUse
from evenflow.names import check_name
from evenflow.planning.controller import Balancing

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
    tenant: str | None = None


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


class FakeRun:
    """A run without Spark: notes its commands; `broken` makes it fail like an unreadable ledger."""

    def __init__(self) -> None:
        world = World()
        self.plan, self.queries = world.plan, world.queries
        self.streams = {"trades": StreamSpec()}
        self.balancing = Balancing(max_imbalance=0.2)
        self.decisions: tuple[Any, ...] = ()
        self.outcomes: tuple[Any, ...] = ()
        self.late, self.quarantined, self.watermarks = {"a": 3}, {"b": "why"}, {"trades": 7}
        self.missing_since = {"b": 12}
        self.set_aside, self.ahead = {"trades": 5}, {"trades": 2}
        self.refused = ()
        self.told: tuple[Alert, ...] = ()
        self.tenants: tuple[TenantUse, ...] = ()
        self.advice: ScalingAdvice | None = None
        self.waiting: tuple[Proposal, ...] = ()
        self.progress: dict[int, BatchProgress] = {}
        self.batch_seconds: dict[int, float] = {}
        self.trigger_seconds: float | None = 2.0
        self.is_active = True
        self.broken = False
        self.commands: list[tuple[Any, ...]] = []
        self.checkpoint_uri, self.url = "memory", ""
        self._snapshots: tuple[Snapshot, ...] = ()
        self.past: list[Snapshot] = []

    def past_snapshots(self) -> list[Snapshot]:
        return self.past

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        if self.broken:
            raise OSError("no ledger")
        return self._snapshots

    def request_stop(self) -> None:
        self._note("stop")

    def announce(self, url: str | None) -> None:
        self.url = url or ""

    def results_page(self, name: str, since: ResultPosition | None, limit: int) -> ResultsPage:
        self._known(name)
        first = since or ResultPosition(0)
        return ResultsPage(pa.table({"n": pa.array([], pa.int64())}), first, first, 1)

    def batch(self, number: int, **more: Any) -> None:
        self._snapshots = (*self._snapshots, World().snapshot(number, **more))

    def submit(self, name: str, sql: str, **more: Any) -> None:
        if sql == "crash":
            raise RuntimeError("a bug with the value 4711 of a row")
        check_name(name, "query")
        self._note("submit", name, sql)

    def submit_template(self, name: str, sql: str, **more: Any) -> None:
        self.submit(name, sql, **more)

    def replace(self, name: str, sql: str, **more: Any) -> Any:
        self._known(name)
        self._note("replace", name, sql)
        return self.queries[name]

    def cancel(self, name: str) -> None:
        self._known(name)
        self._note("cancel", name)

    def resume(self, name: str) -> None:
        self._known(name)
        self._note("resume", name)

    def reset_watermark(self, source: str, to: Any = None) -> None:
        self._note("reset_watermark", source, to)

    def subscribe(self, name: str, rows: Any) -> None:
        self._known(name)
        self._note("subscribe", name, len(rows))

    def unsubscribe(self, name: str, names: Any) -> None:
        self._known(name)
        self._note("unsubscribe", name, *names)

    def drain(self, worker: int) -> None:
        self._note("drain", worker)

    def activate(self, worker: int) -> None:
        self._note("activate", worker)

    def pin(self, name: str, worker: int | None = None) -> None:
        self._known(name)
        self._note("pin", name, worker)

    def unpin(self, name: str) -> None:
        self._known(name)
        self._note("unpin", name)

    def rollback(self) -> None:
        self._note("rollback")

    def alerts(self) -> tuple[Alert, ...]:
        return self.told

    def scaling_advice(self) -> ScalingAdvice | None:
        return self.advice

    def proposals(self) -> list[Proposal]:
        return list(self.waiting)

    def approve(self, number: int) -> None:
        self._note("approve", number)

    def reject(self, number: int) -> None:
        self._note("reject", number)

    def _note(self, *command: Any) -> None:
        self.commands.append(command)

    def _known(self, name: str) -> None:
        if name not in self.queries:
            raise InputError(f"no query {name!r}")
