"""The index finds exactly the rows that can match; kept rows are merged without loss."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import hash_keys
from evenflow.sql.tasks.hash_index import (
    HashIndex,
    RunIndex,
    find_entries_plain,
    merge_spans,
    sort_hashes,
    sort_hashes_plain,
)
from evenflow.sql.tasks.segments import SegmentStore, SortedRun

SPANS = st.lists(st.tuples(st.integers(0, 5), st.integers(-5, 30), st.integers(0, 9)), max_size=30)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 25)), max_size=60), SPANS)
def test_the_kernels_find_what_the_plain_version_finds(
    rows: list[tuple[int, int]], asked: list[tuple[int, int, int]]
) -> None:
    rows.sort()
    spread = np.uint64((2**64 - 1) // 5)  # so that hashes differ in their first bits
    hashes = np.array([h for h, _ in rows], dtype=np.uint64) * spread
    times = np.array([t for _, t in rows], dtype=np.int64)
    wanted = [(h * int(spread), low, low + width) for h, low, width in asked]
    columns = [np.array([w[i] for w in wanted], dtype=k) for i, k in enumerate(("u8", "i8", "i8"))]
    run = SortedRun(pa.table({"_t": times}), times)
    found = RunIndex.build(run, hashes).find(*merge_spans(*columns))
    assert found.tolist() == find_entries_plain(hashes, times, wanted)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 3) | st.integers(0, 2**64 - 1), max_size=200),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_hashes_are_put_in_order_as_by_a_stable_sort(
    values: list[int], times: int, bits: int
) -> None:
    """Also where many of one bucket are not alike: those with few values, again and again."""
    hashes = np.array(values * times, dtype=np.uint64)
    for one, other in zip(sort_hashes(hashes, bits), sort_hashes_plain(hashes, bits), strict=True):
        assert one.tolist() == other.tolist()


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), max_size=40), st.integers(0, 2**32 - 1))
def test_a_store_keeps_what_it_was_given_until_told_to_forget(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    store, model, number = SegmentStore(("k",)), dict[int, tuple[int, int]](), 0
    index = HashIndex(("k",))
    for step, size in enumerate(sizes):
        # Some batches overlap in time, some follow the one before.
        times = rng.integers(step, step + 10, size) if seed % 2 else np.full(size, step + 3)
        keys = rng.integers(0, 5, size)
        ids = np.arange(number, number + size)
        number += size
        store.append(pa.table({"_t": times, "k": keys, "id": ids}))
        model |= {int(i): (int(k), int(t)) for i, k, t in zip(ids, keys, times, strict=True)}
        store.drop_before(step)
        model = {i: (k, t) for i, (k, t) in model.items() if t >= step}
        for runs, merged in store.compact():
            index.merge_run_indexes(runs, merged)
        kept = [int(i) for run in store.runs for i in run.live_rows["id"].to_pylist()]
        assert sorted(kept) == sorted(model)
        assert store.distinct_times().tolist() == sorted({t for _, t in model.values()})
        asked = rng.integers(0, 5, 3)
        low = np.full(3, step + 2)
        parts = index.fetch(store.runs, hash_keys(asked), low, low + 3)
        got = sorted(i for part in parts for i in part["id"].to_pylist())
        wanted = {i for i, (k, t) in model.items() if k in asked and step + 2 <= t <= step + 5}
        assert got == sorted(wanted)


def test_few_runs_stay_and_each_is_saved_once() -> None:
    store, written = SegmentStore(None), 0
    for step in range(500):
        store.append(pa.table({"_t": np.full(1000, step)}))
        store.drop_before(step - 200)
        store.compact()
        named, fresh = store.save()
        written += sum(map(len, fresh.values()))
        assert len(named) == len(store.runs) <= 20
    assert written < 500 * 1000 * 6  # each row is written a few times, not once a batch


def test_keys_that_leave_do_not_make_their_runs_be_written_again() -> None:
    store = SegmentStore(("k",))
    keys = np.arange(5000) % 50
    store.append(pa.table({"_t": np.arange(5000), "k": keys}))
    written = dict(store.save()[1])
    for leaving in (7, 9):
        moving = hash_keys(np.array([leaving]))[0]
        (out,) = store.release(lambda hashes, moving=moving: hashes == moving)  # type: ignore[misc]
        assert set(out["k"].to_pylist()) == {leaving}
    store.append(pa.table({"_t": [5000], "k": [7]}))  # a key may come back
    store.drop_before(1000)
    named, fresh = store.save()
    assert sorted(map(len, fresh.values())) == [1, 1, 1]  # two hashes and the row that came back
    assert store.save()[1] == {}
    copy = SegmentStore(("k",))
    copy.load(named, {**written, **fresh}.__getitem__)
    rows = [run.live_rows.to_pylist() for run in copy.runs]
    assert rows == [run.live_rows.to_pylist() for run in store.runs]
    assert [row["_t"] for row in rows[1]] == [5000]
    assert copy.save() == (named, {})
