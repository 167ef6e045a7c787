"""Prometheus metrics: counters updated per batch, gauges read from the last state."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from evenflow.model.decision import Decision, Outcome
from evenflow.service import schemas
from evenflow.service.tenant_schema import TENANT_RESOURCES, TenantInfo

# Each label value is a time series in Prometheus: only the heaviest queries get one.
_MAX_QUERY_LABELS = 100
_MAX_TENANT_LABELS = 100
_BUCKETS_SECONDS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60)


class Metrics:
    """The content of `/metrics`; updated on the watcher thread, read on the server thread."""

    def __init__(self, state: Callable[[], schemas.RunState | None]) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._batch_seconds = self._histogram(
            "evenflow_batch_seconds", "Time from one batch commit to the next."
        )
        self._rows = self._counter("evenflow_rows", "Rows read by queries.")
        self._plan_changes = self._counter(
            "evenflow_plan_changes", "Plan changes, by trigger.", ("trigger",)
        )
        self._moves = self._counter("evenflow_moves", "Moves of keys and queries.", ("what",))
        self._move_bytes = self._counter("evenflow_move_bytes", "State transferred by moves.")
        self._move_pause_seconds = self._histogram(
            "evenflow_move_pause_seconds", "Extra duration of a batch that transfers state."
        )
        self._move_seconds = self._histogram(
            "evenflow_move_seconds", "Time from a decision until its moves are complete."
        )
        self.registry.register(_StateGauges(state))

    def _histogram(self, name: str, help_text: str) -> Histogram:
        return Histogram(name, help_text, buckets=_BUCKETS_SECONDS, registry=self.registry)

    def _counter(self, name: str, help_text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(name, help_text, labels, registry=self.registry)

    def count_batch(self, seconds: float, rows: int) -> None:
        """Count a batch."""
        self._batch_seconds.observe(seconds)
        self._rows.inc(rows)

    def count_plan_change(self, decision: Decision) -> None:
        """Count a decision that changed the plan."""
        self._plan_changes.labels(decision.trigger).inc()
        keys = sum(move.key_hash is not None for move in decision.moves)
        self._moves.labels("key").inc(keys)
        self._moves.labels("query").inc(len(decision.moves) - keys)

    def count_outcome(self, outcome: Outcome) -> None:
        """Count the measured cost of a plan change."""
        self._move_bytes.inc(outcome.handed_bytes)
        self._move_pause_seconds.observe(max(0.0, outcome.pause_seconds))
        if outcome.duration_seconds is not None:
            self._move_seconds.observe(outcome.duration_seconds)

    def exposition(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)


class _StateGauges(Collector):
    """Gauges of the last state; a cancelled query has no series."""

    def __init__(self, state: Callable[[], schemas.RunState | None]) -> None:
        self._current_state = state

    def collect(self) -> Iterable[Metric]:
        state = self._current_state()
        if state is None:
            return
        summary = state.summary
        for name, text, value in (
            ("imbalance", "Largest load over the mean of active workers.", summary.imbalance),
            ("plan_epoch", "Plan changes since the service started.", summary.plan_changes),
            ("workers_active", "Workers that are not drained.", summary.active),
            ("queries", "Hosted queries.", summary.queries),
            ("late_rows", "Rows dropped behind the watermark.", summary.late),
            ("quarantined_queries", "Queries that failed.", summary.quarantined),
            ("shipped_bytes", "Stream bytes sent to workers, last batch.", summary.shipped_bytes),
            ("round_robin_bytes", "The same under round robin.", summary.round_robin_bytes),
            ("up", "1 while the run is active.", float(summary.status != "ended")),
        ):
            yield GaugeMetricFamily(f"evenflow_{name}", text, value=value)
        yield from self._worker_gauges(state.workers)
        yield self._query_gauge(state)
        yield from _tenant_gauges(state.tenants)
        yield self._set_aside_gauge(state.streams)

    @staticmethod
    def _worker_gauges(workers: list[schemas.WorkerInfo]) -> Iterable[Metric]:
        load = GaugeMetricFamily(
            "evenflow_worker_load_ratio", "Share of a core used by queries.", labels=["worker"]
        )
        state = GaugeMetricFamily("evenflow_state_bytes", "State of queries.", labels=["worker"])
        for worker in workers:
            load.add_metric([str(worker.worker)], worker.load)
            state.add_metric([str(worker.worker)], worker.state_bytes)
        return load, state

    @staticmethod
    def _set_aside_gauge(streams: list[schemas.StreamInfo]) -> Metric:
        rows = GaugeMetricFamily(
            "evenflow_set_aside_rows",
            "Rows of a source that do not count because of their event time.",
            labels=["stream", "reason"],
        )
        for stream in streams:
            if not stream.derived:
                rows.add_metric([stream.name, "invalid"], stream.set_aside - stream.ahead)
                rows.add_metric([stream.name, "ahead"], stream.ahead)
        return rows

    @staticmethod
    def _query_gauge(state: schemas.RunState) -> Metric:
        load = GaugeMetricFamily(
            "evenflow_query_load_ratio",
            f"Share of a core used by a query; after the heaviest {_MAX_QUERY_LABELS}: other.",
            labels=["query"],
        )
        shown = state.queries[:_MAX_QUERY_LABELS]
        for query in shown:
            load.add_metric([query.name], query.load)
        rest = sum(worker.load for worker in state.workers) - sum(query.load for query in shown)
        load.add_metric(["other"], max(rest, 0.0))
        return load


def _tenant_gauges(tenants: list[TenantInfo]) -> Iterable[Metric]:
    """Return use and limits of tenants; a limit that is not set has no series."""
    used = GaugeMetricFamily(
        "evenflow_tenant_use", "Use of a tenant, by resource.", labels=["tenant", "resource"]
    )
    limit = GaugeMetricFamily(
        "evenflow_tenant_limit", "Limit of a tenant, by resource.", labels=["tenant", "resource"]
    )
    slowed = GaugeMetricFamily(
        "evenflow_tenant_slowed_queries", "Slowed queries of a tenant.", labels=["tenant"]
    )
    for tenant in tenants[:_MAX_TENANT_LABELS]:
        for resource in TENANT_RESOURCES:
            used.add_metric([tenant.tenant, resource], getattr(tenant, resource))
            most = getattr(tenant, f"max_{resource}")
            if most is not None:
                limit.add_metric([tenant.tenant, resource], most)
        slowed.add_metric([tenant.tenant], len(tenant.slowed))
    return used, limit, slowed
