"""Prometheus metrics: counters that grow with batches, gauges read from the last state."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from evenflow.model.decision import Decision, Outcome
from evenflow.service import schemas

# A label costs the scraper a series for ever: the heaviest queries have one each.
_MAX_QUERY_LABELS = 100
_BUCKETS_SECONDS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60)


class Metrics:
    """What `/metrics` tells; counted on the watcher's thread, read on the server's."""

    def __init__(self, state: Callable[[], schemas.RunState | None]) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._batch_seconds = self._histogram(
            "evenflow_batch_seconds", "Time from the end of one batch to the end of the next."
        )
        self._rows = self._counter("evenflow_rows", "Rows taken in by queries.")
        self._plan_changes = self._counter(
            "evenflow_plan_changes", "Plans followed, by what asked for them.", ("trigger",)
        )
        self._moves = self._counter("evenflow_moves", "Moves, by what was moved.", ("what",))
        self._move_bytes = self._counter("evenflow_move_bytes", "State handed over by moves.")
        self._move_pause_seconds = self._histogram(
            "evenflow_move_pause_seconds", "How much longer the batch of a hand-over took."
        )
        self._move_seconds = self._histogram(
            "evenflow_move_seconds", "From a decision until what it moves had moved."
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

    def count_plan_change(self, made: Decision) -> None:
        """Count a plan that is followed."""
        self._plan_changes.labels(made.trigger).inc()
        keys = sum(move.key_hash is not None for move in made.moves)
        self._moves.labels("key").inc(keys)
        self._moves.labels("query").inc(len(made.moves) - keys)

    def count_outcome(self, outcome: Outcome) -> None:
        """Count what a plan cost."""
        self._move_bytes.inc(outcome.handed_bytes)
        self._move_pause_seconds.observe(max(0.0, outcome.pause_seconds))
        if outcome.duration_seconds is not None:
            self._move_seconds.observe(outcome.duration_seconds)

    def exposition(self) -> bytes:
        """Return the exposition."""
        return generate_latest(self.registry)


class _StateGauges(Collector):
    """The last state; a worker or query that is gone has no series."""

    def __init__(self, state: Callable[[], schemas.RunState | None]) -> None:
        self._current_state = state

    def collect(self) -> Iterable[Metric]:
        found = self._current_state()
        if found is None:
            return
        whole = found.summary
        for name, text, value in (
            ("imbalance", "Largest load over the mean of active workers.", whole.imbalance),
            ("plan_epoch", "Plans followed since the service began.", whole.plan_changes),
            ("workers_active", "Workers that are not drained.", whole.active),
            ("queries", "Hosted queries.", whole.queries),
            ("late_rows", "Rows dropped behind the watermark, of hosted queries.", whole.late),
            ("quarantined_queries", "Queries that failed.", whole.quarantined),
            ("shipped_bytes", "Bytes of streams sent to workers, last batch.", whole.shipped_bytes),
            (
                "round_robin_bytes",
                "The same, estimated for queries dealt out in turn.",
                whole.round_robin_bytes,
            ),
            ("up", "1 while the run goes on.", float(whole.status != "ended")),
        ):
            yield GaugeMetricFamily(f"evenflow_{name}", text, value=value)
        yield from self._worker_gauges(found.workers)
        yield self._query_gauge(found.queries)

    @staticmethod
    def _worker_gauges(workers: list[schemas.WorkerInfo]) -> Iterable[Metric]:
        load = GaugeMetricFamily(
            "evenflow_worker_load_ratio", "Share of a core that queries need.", labels=["worker"]
        )
        state = GaugeMetricFamily("evenflow_state_bytes", "Kept state.", labels=["worker"])
        for worker in workers:
            load.add_metric([str(worker.worker)], worker.load)
            state.add_metric([str(worker.worker)], worker.state_bytes)
        return load, state

    @staticmethod
    def _query_gauge(queries: list[schemas.QueryInfo]) -> Metric:
        load = GaugeMetricFamily(
            "evenflow_query_load_ratio",
            f"Share of a core that a query needs; beyond the heaviest {_MAX_QUERY_LABELS}: other.",
            labels=["query"],
        )
        for query in queries[:_MAX_QUERY_LABELS]:
            load.add_metric([query.name], query.load)
        load.add_metric(["other"], sum(query.load for query in queries[_MAX_QUERY_LABELS:]))
        return load
