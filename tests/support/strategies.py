"""What hypothesis draws from: small problems with ties, idle keys, heavy keys and empty workers."""

import numpy as np
from hypothesis import strategies as st

from evenflow.model import (
    BalanceMetrics,
    Decision,
    KeyLoads,
    KeySplit,
    KeyStats,
    Move,
    Outcome,
    Plan,
    QueryLoad,
    RoutingTable,
    Snapshot,
    Transfer,
    Verdict,
)
from evenflow.planning.keys import KeyConfig

costs = st.one_of(st.integers(0, 20), st.sampled_from([0, 1, 1, 2, 50, 200])).map(float)


@st.composite
def key_loads(draw: st.DrawFn, max_keys: int = 40, max_workers: int = 6) -> KeyLoads:
    workers = draw(st.integers(1, max_workers))
    count = draw(st.integers(1, max_keys))
    column = st.lists(costs, min_size=count, max_size=count)
    at = st.lists(st.integers(0, workers - 1), min_size=count, max_size=count)
    home = draw(at)
    away = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    elsewhere = draw(at)
    owner = [
        there if gone else here for here, there, gone in zip(home, elsewhere, away, strict=True)
    ]
    return KeyLoads.from_arrays(
        np.array(draw(column)), np.array(draw(column)), np.array(home), np.array(owner), workers
    )


key_configs = st.builds(
    KeyConfig,
    max_imbalance=st.sampled_from([0.0, 0.08, 0.3, 1.0]),
    max_table=st.integers(0, 40),
    beta=st.sampled_from([0.5, 1.0, 1.5, 2.0]),
)


finite = st.floats(0, 1e15, allow_subnormal=True)
names = st.text(min_size=1, max_size=6)
hashes = st.integers(0, 2**64 - 1)


@st.composite
def plans(draw: st.DrawFn, workers: int) -> Plan:
    at = st.integers(0, workers - 1)
    tables = {}
    for query in draw(st.lists(names, max_size=2, unique=True)):
        owners = draw(st.dictionaries(hashes, at, max_size=5))
        found = np.array(list(owners), dtype=np.uint64)
        several = st.lists(at, min_size=2, unique=True).map(tuple) if workers > 1 else st.nothing()
        splits = draw(st.dictionaries(hashes, several, max_size=2 if workers > 1 else 0))
        tables[query] = RoutingTable.from_entries(found, list(owners.values())).with_splits(
            KeySplit(key, among, draw(names)) for key, among in splits.items()
        )
    drained = draw(st.frozensets(at, max_size=workers - 1))
    return Plan(workers, draw(st.dictionaries(names, at, max_size=4)), tables, drained)


@st.composite
def key_stats(draw: st.DrawFn, workers: int) -> KeyStats:
    found = sorted(draw(st.sets(hashes, max_size=6)))
    number = len(found)

    def column(values: st.SearchStrategy[float], length: int) -> list[float]:
        return draw(st.lists(values, min_size=length, max_size=length))

    return KeyStats(
        np.array(found, dtype=np.uint64),
        np.array(column(st.integers(0, workers - 1), number), dtype=np.int32),
        np.array(column(finite, number)),
        np.array(column(finite, number)),
        tuple(draw(st.lists(st.text(max_size=4), min_size=number, max_size=number))),
        np.array(column(st.integers(0, 10**9), workers), dtype=np.int64),
        np.array(column(finite, workers)),
        np.array(column(finite, workers)),
        np.array(column(finite, workers)),
        np.array(column(st.integers(0, 2**60), number), dtype=np.int64),
        np.array(column(finite, number)),
        tuple(draw(st.lists(st.text(max_size=4), min_size=number, max_size=number))),
    )


@st.composite
def query_loads(draw: st.DrawFn, workers: int) -> QueryLoad:
    counts = st.lists(st.integers(0, 2**60), min_size=workers, max_size=workers)
    numbers = st.lists(finite, min_size=workers, max_size=workers)
    return QueryLoad(
        streams=tuple(draw(st.lists(names, max_size=3))),
        rows_in=np.array(draw(counts), dtype=np.int64),
        rows_out=np.array(draw(counts), dtype=np.int64),
        cpu_seconds=np.array(draw(numbers)),
        load=np.array(draw(numbers)),
        state_bytes=np.array(draw(numbers)),
        keys=draw(st.none() | key_stats(workers)),
        pinned=draw(st.booleans()),
        keyable=draw(st.booleans()),
        publishes=draw(st.booleans()),
        split_streams=tuple(draw(st.lists(names, max_size=2))),
    )


_workers = st.integers(0, 3)
_states = st.builds(Transfer, names, _workers, _workers, st.integers(0, 2**40))
handed = st.lists(_states, max_size=3).map(tuple)


@st.composite
def snapshots(draw: st.DrawFn, batch: int) -> Snapshot:
    workers = draw(st.integers(1, 4))
    numbers = st.lists(finite, min_size=workers, max_size=workers).map(np.array)
    plan = draw(plans(workers))
    return Snapshot(
        batch,
        draw(finite),
        draw(finite),
        plan,
        draw(st.just(plan) | plans(workers)),
        draw(st.frozensets(st.integers(0, workers - 1))),
        draw(st.dictionaries(names, query_loads(workers), max_size=4)),
        draw(st.dictionaries(names, numbers, max_size=3)),
        draw(numbers),
        draw(handed),
    )


judgements = st.builds(BalanceMetrics, *[finite] * 6)
_owners = st.lists(_workers, max_size=3).map(tuple)
_moves = st.builds(Move, names, _workers, _workers, st.none() | hashes, _owners, _owners)
_verdicts = st.builds(Verdict, names, names, st.text(max_size=9), st.none() | finite)


def decisions(batch: int) -> st.SearchStrategy[Decision]:
    return st.builds(
        Decision,
        st.just(batch),
        finite,
        names,
        names,
        st.text(max_size=20),
        judgements,
        st.none() | judgements,
        st.none() | plans(3),
        st.none() | plans(3),
        st.lists(_moves, max_size=3).map(tuple),
        finite,
        st.lists(_verdicts, max_size=2).map(tuple),
        st.dictionaries(names, st.integers(-1, 3), max_size=3),
    )


def outcomes(batch: int) -> st.SearchStrategy[Outcome]:
    return st.builds(
        Outcome,
        st.integers(0, batch),
        st.just(batch),
        judgements,
        st.integers(0, 2**40),
        finite,
        st.none() | finite,
        handed,
    )
