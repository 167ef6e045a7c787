"""The first batch of a query also compiles; that is no load."""

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose

from evenflow.model import KeyStats, Plan, QueryLoad, RoutingTable, Snapshot, hash_keys
from evenflow.planning.controller import Balancing, decide, select_window

WORKERS, ROWS = 4, np.array([600, 100, 100, 100])
PLAN = Plan(WORKERS, {"whole": 1}, {"keyed": RoutingTable()})


def keyed(fixed: float, per_row: float, rows: np.ndarray = ROWS) -> QueryLoad:
    """One key on each worker; the first one has most rows."""
    cost, none = per_row * rows, np.zeros(WORKERS)
    steps = np.full(WORKERS, fixed)
    order = np.argsort(hash_keys(np.arange(WORKERS)))
    owner = np.arange(WORKERS, dtype=np.int32)[order]
    keys = KeyStats(
        np.sort(hash_keys(np.arange(WORKERS))), owner, cost[order], none, ("",) * WORKERS,
        none.astype(np.int64), steps, none, steps, rows[order],
    )  # fmt: skip
    load = cost + fixed
    return QueryLoad(("s",), rows, rows, load, load, none, keys)


def whole(load: float, rows: int = 100) -> QueryLoad:
    loads, counts = np.zeros(WORKERS), np.zeros(WORKERS, dtype=np.int64)
    loads[1], counts[1] = load, rows
    return QueryLoad(("s",), counts, counts, loads, loads, np.zeros(WORKERS))


def stream(*batches: dict[str, QueryLoad]) -> list[Snapshot]:
    return [
        Snapshot(batch, float(batch), 1.0, PLAN, PLAN, queries=queries)
        for batch, queries in enumerate(batches)
    ]


def test_what_it_takes_to_start_does_not_count() -> None:
    warm = {"keyed": keyed(0.01, 1e-4), "whole": whole(0.02)}
    window = select_window(stream({"keyed": keyed(5.0, 1e-3), "whole": whole(2.0)}, warm), 16)
    for name, query in window[0].queries.items():
        assert_allclose(query.load, warm[name].load, err_msg=name)
    keys, expected = window[0].queries["keyed"].keys, warm["keyed"].keys
    assert keys is not None and expected is not None
    for field in ("cost", "rest_cost", "rest_fixed_cost", "shared_cost"):
        assert_allclose(getattr(keys, field), getattr(expected, field), err_msg=field)


def test_a_first_batch_with_more_rows_is_dearer_and_counts() -> None:
    first = {"keyed": keyed(0.01, 1e-4, 10 * ROWS), "whole": whole(0.3, 1000)}
    window = select_window(stream(first, {"keyed": keyed(0.01, 1e-4), "whole": whole(0.04)}), 16)
    assert window[0].queries == first


def test_only_the_first_batch_is_repriced() -> None:
    warm, burst = {"whole": whole(0.02)}, {"whole": whole(2.0)}
    snapshots = stream(warm, warm, burst, warm)
    assert select_window(snapshots, 16)[2].queries == burst
    assert select_window(snapshots, 2)[0].queries == burst, "it began before the window"
    later = stream(warm, {**warm, "late": whole(3.0)}, {**warm, "late": whole(0.02)})
    assert_allclose(select_window(later, 16)[1].queries["late"].load, whole(0.02).load)


def test_a_hot_key_is_seen_beside_a_first_batch_that_compiles() -> None:
    """Averaged with 5 s of compiling, a key that has most of 40 ms would look like nothing."""
    warm = {"keyed": keyed(0.01, 1e-4)}
    snapshots = stream({"keyed": keyed(5.0, 1e-4)}, *[warm] * 5)
    decision = decide(snapshots, [], Balancing(min_excess=0.0))
    assert decision.before.imbalance > 1.5
    assert decision.before.mean_load < 0.05


def test_a_query_without_a_second_batch_counts_as_measured() -> None:
    alone = stream({"whole": whole(2.0)}, {"whole": replace(whole(0.0, 0))})
    assert select_window(alone, 16)[0].queries["whole"].load.sum() == 2.0
