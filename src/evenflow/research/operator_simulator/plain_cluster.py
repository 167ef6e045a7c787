"""The event loop in plain Python: explains the kernel, and is its oracle in tests."""

from collections import deque
from itertools import takewhile

from evenflow.model.arrays import Floats, Hashes, Indices, Workers
from evenflow.planning.operators.kernel_rng import random_unit
from evenflow.research.operator_simulator.cluster import build_wiring
from evenflow.research.operator_simulator.network import OperatorNetwork

PlannedMoves = list[tuple[float, float, dict[int, int]]]  # (begin, end, operator -> worker)


class PlainCluster:
    """Workers that serve queues of (target, birth), first in first out."""

    def __init__(
        self,
        network: OperatorNetwork,
        workers: int,
        placement: Workers | list[int],
        rng_state: Hashes,
    ) -> None:
        self.network, self.rng_state = network, rng_state
        self.worker = [int(worker) for worker in placement]
        self.queues: list[deque[tuple[int, float]]] = [deque() for _ in range(workers)]
        self.serving: list[tuple[float, int, float] | None] = [None] * workers
        self.pending: dict[int, deque[tuple[int, float]]] = {}
        self.windows: dict[int, deque[float]] = {}
        self.outputs: list[tuple[int, float, float]] = []
        self.wiring = build_wiring(network)

    def run(self, times: Floats, sources: Indices, moves: PlannedMoves, until: float) -> None:
        """Process arrivals, services and moves in order of time."""
        starts = sorted((begin, end, goal) for begin, end, goal in moves)
        ends: list[tuple[float, dict[int, int]]] = []
        arrivals = deque(zip(times.tolist(), sources.tolist(), strict=True))
        while True:
            done = [(service[0], worker) for worker, service in enumerate(self.serving) if service]
            candidates = [(time, 0) for time, _ in done]
            candidates += [(arrivals[0][0], 1)] if arrivals else []
            candidates += [(starts[0][0], 2)] if starts else []
            candidates += [(ends[0][0], 2)] if ends else []
            now, kind = min(candidates, default=(until + 1, 0))
            if now > until:
                return
            if kind == 0:
                self._finish(min(done)[1], now)
            elif kind == 1:
                source = arrivals.popleft()[1]
                self._send(now, now, self.wiring.feed_starts, self.wiring.feed_targets, source)
            elif ends and ends[0][0] == now:
                self._resume(ends.pop(0)[1], now)
            else:
                _, end, goal = starts.pop(0)
                rest = self._suspend(goal)
                ends.append((max(end, rest), goal))
                ends.sort(key=lambda move: move[0])

    def _finish(self, worker: int, now: float) -> None:
        served = self.serving[worker]
        if served is None:
            return
        _, target, birth = served
        operator, chances = target >> 1, 1
        window = self.network.join_window_seconds[operator]
        if window > 0:
            others = self.windows.setdefault(target ^ 1, deque())
            while others and others[0] < birth - window:
                others.popleft()
            chances = sum(1 for _ in takewhile(lambda other: other <= birth + window, others))
            self.windows.setdefault(target, deque()).append(birth)
        keep = self.network.selectivity[operator]
        copies = chances * int(keep)
        if keep > int(keep):
            copies += sum(random_unit(self.rng_state) < keep - int(keep) for _ in range(chances))
        for _ in range(copies):
            if self.wiring.link_starts[operator] == self.wiring.link_starts[operator + 1]:
                self.outputs.append((operator, birth, now))
            self._send(birth, now, self.wiring.link_starts, self.wiring.link_targets, operator)
        self.serving[worker] = None
        if self.queues[worker]:
            self._serve(worker, *self.queues[worker].popleft(), now)

    def _send(self, birth: float, now: float, starts: Indices, targets: Indices, row: int) -> None:
        for target in targets[starts[row] : starts[row + 1]].tolist():
            self._deliver(target, birth, now)

    def _deliver(self, target: int, birth: float, now: float) -> None:
        operator = target >> 1
        worker = self.worker[operator]
        if operator in self.pending:
            self.pending[operator].append((target, birth))
        elif self.serving[worker] is None:
            self._serve(worker, target, birth, now)
        else:
            self.queues[worker].append((target, birth))

    def _serve(self, worker: int, target: int, birth: float, now: float) -> None:
        self.serving[worker] = (now + float(self.network.cost[target >> 1]), target, birth)

    def _suspend(self, goal: dict[int, int]) -> float:
        self.pending.update({operator: deque() for operator in goal})
        for queue in self.queues:
            waiting = list(queue)
            queue.clear()
            for target, birth in waiting:
                self.pending.get(target >> 1, queue).append((target, birth))
        return max((s[0] for s in self.serving if s and s[1] >> 1 in goal), default=0.0)

    def _resume(self, goal: dict[int, int], now: float) -> None:
        for operator, worker in sorted(goal.items()):
            self.worker[operator] = worker
            for target, birth in self.pending.pop(operator):
                self._deliver(target, birth, now)
