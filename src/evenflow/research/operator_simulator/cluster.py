"""A simulated cluster that runs an operator network: time, queues and moves."""

import numpy as np

from evenflow.errors import InputError
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.operators.kernel_rng import seed_state
from evenflow.research.operator_simulator import event_loop
from evenflow.research.operator_simulator.migration import resume_operators, suspend_operators
from evenflow.research.operator_simulator.network import OperatorNetwork


class Cluster:
    """Workers with one CPU each, and sorted arrivals as input.

    >>> one = OperatorNetwork.from_lists([0.5], [1.0], feeds=[(0, 0)])
    >>> cluster = Cluster(one, 1, [0], np.array([0.0, 0.25]), np.array([0, 0]))
    >>> cluster.run_until(until=10.0)
    >>> cluster.latencies().tolist()
    [0.5, 0.75]
    """

    def __init__(
        self,
        network: OperatorNetwork,
        workers: int,
        placement: Workers | list[int],
        times: Floats,
        sources: Indices,
        rng: np.random.Generator | None = None,
    ) -> None:
        if len(times) > 1 and bool((np.diff(times) < 0).any()):
            raise InputError("arrivals must be sorted by time")
        self.network = network
        self.now = 0.0
        self._times = np.ascontiguousarray(times, dtype=np.float64)
        self._sources = np.ascontiguousarray(sources, dtype=np.int64)
        self._wiring = build_wiring(network)
        self._moves: list[tuple[float, Indices, Indices]] = []
        self._goal = np.array(placement, dtype=np.int32)
        count, joins = len(network), 2 * len(network)
        half = 1 << max(workers - 1, 1).bit_length()
        leaves = np.minimum(np.arange(half), workers)
        tree = np.concatenate([np.full(half, workers), leaves])
        self._state = event_loop.ClusterState(
            worker=np.array(placement, dtype=np.int64),
            suspended=np.zeros(count, dtype=bool),
            finish_seconds=np.full(workers + 1, np.inf),  # the last one is for unused leaves
            serving=np.zeros(workers, dtype=np.int64),
            serving_birth=np.zeros(workers),
            tournament=tree.astype(np.int64),
            queues=np.full((workers, 2), event_loop.NO_CELL),
            suspended_queues=np.full((count, 2), event_loop.NO_CELL),
            windows=np.full((joins, 2), event_loop.NO_CELL),
            busy_seconds=np.zeros(workers),
            arrived=np.zeros(count, dtype=np.int64),
            served=np.zeros(count, dtype=np.int64),
            emitted=np.zeros(count, dtype=np.int64),
            cursor=np.array([0, 0, 0], dtype=np.int64),
            rng_state=seed_state(rng or np.random.default_rng(0)),
        )
        cells = 1024
        after = np.append(np.arange(1, cells), event_loop.NO_CELL)
        self._pool = event_loop.CellPool(np.zeros(cells, dtype=np.int64), np.zeros(cells), after)
        self._outputs = event_loop.Outputs(
            np.zeros(cells, dtype=np.int64), np.zeros(cells), np.zeros(cells)
        )

    def run_until(self, until: float) -> None:
        """Process all events up to a time, including the ends of moves."""
        while self._moves and self._moves[0][0] <= until:
            due, moving, workers = self._moves.pop(0)
            self._advance(due)
            resume_operators(moving, workers, due, self._wiring, self._state, self._pool)
        self._advance(until)

    def _advance(self, until: float) -> None:
        self._pool, self._outputs = event_loop.run_until(
            float(until),
            self._times,
            self._sources,
            self._wiring,
            self._state,
            self._pool,
            self._outputs,
        )
        self.now = until

    def move(self, placement: Workers, seconds: float) -> None:
        """Move all operators whose worker differs in a placement.

        They are suspended now, after the tuple in service; their queued tuples join the queues of
        the new workers when the move ends.
        """
        moving = np.flatnonzero(placement != self._goal)
        if not len(moving):
            return
        if self._state.suspended[moving].any():
            raise InputError("an operator cannot be moved again before its move ends")
        rest = suspend_operators(moving, self._state, self._pool)
        targets = placement[moving].astype(np.int64)
        self._goal[moving] = placement[moving]
        self._moves.append((max(self.now + seconds, rest), moving, targets))
        self._moves.sort(key=lambda move: move[0])

    @property
    def placement(self) -> Workers:
        """The worker of each operator, or the target of its move."""
        return self._goal.copy()

    @property
    def moving_operators(self) -> Indices:
        """Operators that are being moved."""
        return np.flatnonzero(self._state.suspended)

    @property
    def busy_seconds(self) -> Floats:
        """CPU seconds of all started services, by worker."""
        return self._state.busy_seconds.copy()

    @property
    def services(self) -> int:
        """Number of served tuples."""
        return int(self._state.served.sum())

    def tuple_counts(self) -> dict[str, Indices]:
        """Return the number of arrived, served, emitted and waiting tuples of each operator."""
        state, waiting = self._state, np.zeros(len(self.network), dtype=np.int64)
        heads = [*state.queues[:, 0].tolist(), *state.suspended_queues[:, 0].tolist()]
        for head in heads:
            cell = head
            while cell >= 0:
                waiting[self._pool.target[cell] >> 1] += 1
                cell = int(self._pool.next_cell[cell])
        in_service = state.serving[np.isfinite(state.finish_seconds[:-1])] >> 1
        np.add.at(waiting, in_service, 1)
        return {
            "arrived": state.arrived.copy(),
            "served": state.served.copy(),
            "emitted": state.emitted.copy(),
            "waiting": waiting,
        }

    def outputs(self) -> event_loop.Outputs:
        """Return the tuples that have left the network, in order."""
        count = int(self._state.cursor[2])
        sink, birth, left = self._outputs
        return event_loop.Outputs(sink[:count], birth[:count], left[:count])

    def latencies(self) -> Floats:
        """Return the seconds from birth to output of each tuple."""
        outputs = self.outputs()
        return outputs.left_at - outputs.born_at


def build_wiring(network: OperatorNetwork) -> event_loop.Wiring:
    """Return the network as rows of targets; the inputs of a join get ports 0 and 1."""
    ports = np.zeros(len(network), dtype=np.int64)

    def rows(edges: Indices, starts: int) -> tuple[Indices, Indices]:
        targets: list[list[int]] = [[] for _ in range(starts)]
        for start, end in edges.tolist():
            targets[start].append(2 * end + int(ports[end]))
            ports[end] += network.join_window_seconds[end] > 0
        flat = np.array([target for row in targets for target in row], dtype=np.int64)
        return np.cumsum([0, *(len(row) for row in targets)]), flat

    feed_starts, feed_targets = rows(network.source_edges, network.source_count)
    link_starts, link_targets = rows(network.operator_edges, len(network))
    return event_loop.Wiring(
        network.cost.copy(), network.selectivity.copy(), network.join_window_seconds.copy(),
        feed_starts, feed_targets, link_starts, link_targets,
    )  # fmt: skip
