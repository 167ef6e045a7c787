"""Synthetic flows for tests of the controller, with a readable history of decisions."""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from evenflow.model import Decision, Plan, RoutingTable, Snapshot, hash_keys
from evenflow.model.arrays import Floats
from evenflow.planning.controller import Balancing, decide
from evenflow.research.key_workload import zipf_costs
from evenflow.research.synthetic_flow import QueryDemand, SyntheticFlow

Hook = Callable[[SyntheticFlow], None]


def keyed_demand(costs: Callable[[int], Floats], keys: int, first: int = 0) -> QueryDemand:
    return QueryDemand(costs, hash_keys(np.arange(first, first + keys)))


def zipf_flow(
    keys: int = 2000,
    skew: float = 1.0,
    workers: int = 8,
    shift_every: int = 10**6,
    noise: float = 0.0,
    seed: int = 0,
    total: float = 4.0,
) -> SyntheticFlow:
    """One keyed query whose keys change ranks every `shift_every` batches."""

    @functools.cache
    def epoch(number: int) -> Floats:
        return zipf_costs(keys, skew, np.random.default_rng((seed, number)), total)

    def costs(batch: int) -> Floats:
        return epoch(batch // shift_every)

    plan = Plan(workers, {}, {"counts": RoutingTable()})
    return SyntheticFlow({"counts": keyed_demand(costs, keys)}, plan, noise=noise, seed=seed)


def whole_flow(
    loads: Sequence[float | Callable[[int], float]],
    places: list[int],
    workers: int,
    noise: float = 0.0,
    **demand: object,
) -> SyntheticFlow:
    """Whole queries q0, q1, ... with given loads on given workers."""
    queries = {f"q{index}": _demand(load, demand) for index, load in enumerate(loads)}
    plan = Plan(workers, {f"q{index}": worker for index, worker in enumerate(places)})
    return SyntheticFlow(queries, plan, noise=noise)


def _demand(load: float | Callable[[int], float], more: dict[str, object]) -> QueryDemand:
    def loads(batch: int) -> Floats:
        return np.array([load(batch) if callable(load) else load])

    return QueryDemand(loads, **more)  # type: ignore[arg-type]


def run(
    flow: SyntheticFlow, batches: int, config: Balancing | None = None, hook: Hook | None = None
) -> list[float]:
    """Run batches under the controller; return the true imbalance of each of them."""
    settings = Balancing() if config is None else config
    imbalances = []
    for _ in range(batches):
        if hook is not None:
            hook(flow)
        imbalances.append(flow.imbalance())
        flow.step(lambda snapshots, decisions: decide(snapshots, decisions, settings))
        check(flow)
    return imbalances


def plans(flow: SyntheticFlow) -> list[Decision]:
    return [decision for decision in flow.decisions if decision.plan is not None]


def history(flow: SyntheticFlow) -> str:
    """Return a line for each batch with a plan or a verdict."""
    return "\n".join(
        f"batch {decision.batch}: {decision.trigger}/{decision.reason} {decision.message} "
        f"({len(decision.moves)} moves)"
        for decision in flow.decisions
        if decision.plan is not None or decision.verdicts
    )


def check(flow: SyntheticFlow) -> None:
    """Assert the invariants of every decision."""
    decision, snapshot = flow.decisions[-1], flow.snapshots[-1]
    valid_plan(flow, flow.next_plan)
    pins_never_moved(snapshot, decision)
    load_conserved(decision)
    keeps_the_number_of_workers(snapshot, decision)


def valid_plan(flow: SyntheticFlow, plan: Plan) -> None:
    assert len(plan.active) > 0
    assert plan.placement.keys() | plan.tables.keys() == flow.queries.keys(), history(flow)
    assert not plan.placement.keys() & plan.tables.keys()
    assert set(plan.placement.values()) <= set(plan.active), history(flow)
    for table in plan.tables.values():
        assert set(table.owners.tolist()) <= set(plan.active), history(flow)


def pins_never_moved(snapshot: Snapshot, decision: Decision) -> None:
    for move in decision.moves:
        assert not snapshot.queries[move.query].pinned


def load_conserved(decision: Decision) -> None:
    if decision.predicted is not None and decision.plan is not None:
        before = decision.before.mean_load
        after = decision.predicted.mean_load
        if not any(word in decision.message for word in ("activates", "drains", "next step")):
            split = any(move.owners_after for move in decision.moves)  # replicas are more load
            assert np.isclose(before, after, rtol=0.3 if split else 1e-6)


def keeps_the_number_of_workers(snapshot: Snapshot, decision: Decision) -> None:
    if decision.plan is None:
        assert decision.moves == ()
        assert decision.target is None
    else:
        assert decision.plan.workers == snapshot.next_plan.workers


def nothing_returns(flow: SyntheticFlow, cooldown: int) -> None:
    """Assert that nothing returns within the cooldown to a worker that it left."""
    left: dict[tuple[str, int | None, int], int] = {}
    for decision in flow.decisions:
        if decision.trigger in ("drain", "activate"):
            left.clear()  # these moves are requested, not the controller's choice
        for move in decision.moves:
            gone = left.get((move.query, move.key_hash, move.after), -(10**6))
            assert decision.batch - gone >= cooldown, f"{move}\n{history(flow)}"
            left[move.query, move.key_hash, move.before] = decision.batch
