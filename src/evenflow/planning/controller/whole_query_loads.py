"""Whole queries as operators: their load series, next to the load of keyed queries."""

from dataclasses import dataclass, replace

import numpy as np

from evenflow.model.arrays import Bools, Floats, Workers
from evenflow.planning.controller.build_decision import DecisionContext
from evenflow.planning.controller.worker_loads import WorkerLoads
from evenflow.planning.operators import SourceTraffic


@dataclass(frozen=True, slots=True, eq=False)
class WholeQueryLoads:
    """Whole queries and the load of keyed ones; workers are positions in `active_workers`.

    samples     load of each query (row) in each batch (column)
    keyed_load  load of keyed queries on each worker (row) in each batch
    traffic     what each placement ships, and its price
    """

    queries: tuple[str, ...]
    samples: Floats
    keyed_load: Floats
    placement: Workers
    movable: Bools
    state_bytes: Floats
    traffic: SourceTraffic
    active_workers: tuple[int, ...]

    @classmethod
    def collect(cls, loads: WorkerLoads, context: DecisionContext) -> "WholeQueryLoads":
        """Collect the whole queries of a plan."""
        plan, names, active = loads.plan, loads.whole_queries, loads.active_workers
        position = np.full(plan.workers, -1, dtype=np.int32)
        position[active] = np.arange(len(active))
        queries = [loads.last_snapshot.queries.get(name) for name in names]
        streams = [() if query is None else query.streams for query in queries]
        return cls(
            queries=names,
            samples=loads.whole_query_loads,
            keyed_load=loads.keyed_series[:, active].T.copy(),
            placement=position[[plan.placement[name] for name in names]],
            movable=np.array([q is not None and not q.pinned for q in queries], dtype=np.bool_),
            state_bytes=np.array([0.0 if q is None else q.state_bytes.sum() for q in queries]),
            traffic=_build_traffic(streams, context),
            active_workers=plan.active,
        )

    def worker_loads(self, placement: Workers) -> Floats:
        """Return the load of each worker (column) in each batch (row)."""
        series = self.keyed_load.copy()
        np.add.at(series, placement, self.samples)
        result: Floats = series.T
        return result

    def traffic_with_keyed(self, operators: int) -> SourceTraffic:
        """Return the traffic next to so many operators of keyed load, which read nothing."""
        starts = self.traffic.starts
        return replace(self.traffic, starts=np.append(starts, np.full(operators, starts[-1])))

    def select_batches(self, rows: slice) -> "WholeQueryLoads":
        """Return the loads in some of the batches."""
        return replace(self, samples=self.samples[:, rows], keyed_load=self.keyed_load[:, rows])


def _build_traffic(streams: list[tuple[str, ...]], context: DecisionContext) -> SourceTraffic:
    """Return the streams that queries read, with sizes that add up to 1."""
    names = sorted({stream for read in streams for stream in read})
    position = {stream: index for index, stream in enumerate(names)}
    sizes = np.array([context.stream_bytes.get(stream, 0.0) for stream in names])
    sizes = sizes / sizes.sum() if sizes.sum() > 0 else np.ones(len(names)) / max(len(names), 1)
    reads: list[list[int]] = [[position[stream] for stream in read] for read in streams]
    return SourceTraffic.of(reads, sizes, context.config.traffic_price)
