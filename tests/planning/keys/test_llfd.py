"""LLFD and its relatives: the paper's examples, its bound, and kernel against plain version."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.strategies import key_loads

from evenflow.model import KeyLoads
from evenflow.planning.keys import ALGORITHMS, KeyConfig
from evenflow.planning.keys.llfd import llfd_owners, llfd_plain, llfd_records

# Figure 4: keys k1..k6; k3 and k5 are in the routing table, the others at home.
FIGURE_4 = KeyLoads.from_arrays(
    cost=np.array([7.0, 4, 2, 1, 5, 1]),
    state=np.array([7.0, 4, 2, 1, 5, 1]),
    home=np.array([0, 0, 0, 1, 1, 1]),
    owner=np.array([0, 0, 1, 1, 0, 1]),
    workers=2,
)


@pytest.mark.parametrize(("name", "entries"), [("llfd", 4), ("mintable", 2)])
def test_figure_4_ends_at_loads_10_and_10(name: str, entries: int) -> None:
    config = KeyConfig(max_imbalance=0.0, max_table=4)
    plan = ALGORITHMS[name](FIGURE_4, config, np.random.default_rng(0))
    assert FIGURE_4.worker_loads().tolist() == [16.0, 4.0]
    assert plan.loads.tolist() == [10.0, 10.0]
    assert plan.table_size(FIGURE_4) == entries
    assert plan.verdicts == ()


@given(keys=key_loads(), slack=st.sampled_from([1.0, 1.1, 1.3]), data=st.data())
def test_kernel_equals_plain_version(keys: KeyLoads, slack: float, data: st.DataObject) -> None:
    count = len(keys)
    psi = np.array(
        data.draw(st.lists(st.integers(0, 5).map(float), min_size=count, max_size=count))
    )
    fixed = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    limit = slack * float(keys.cost.sum()) / keys.workers
    given_to_both = (keys.cost, psi, keys.owner, fixed, keys.workers, limit)
    assert llfd_owners(*given_to_both).tolist() == llfd_plain(*given_to_both).tolist()


@given(keys=key_loads(max_keys=8), data=st.data())
def test_records_go_where_their_keys_would(keys: KeyLoads, data: st.DataObject) -> None:
    """A record of # like keys is planned as # keys are."""
    count = len(keys)
    number = np.array(
        data.draw(st.lists(st.integers(1, 6), min_size=count, max_size=count)), np.int32
    )
    psi = np.arange(count, dtype=float) % 4
    none = np.zeros(count, dtype=np.bool_)
    limit = 1.1 * float((keys.cost * number).sum()) / keys.workers
    moved, targets = llfd_records(keys.cost, psi, keys.owner, number, none, keys.workers, limit)
    by_record = np.zeros((count, keys.workers), dtype=int)
    np.add.at(by_record, (np.arange(count), keys.owner), number)
    np.add.at(by_record, (moved, keys.owner[moved]), -1)
    np.add.at(by_record, (moved, targets), 1)

    of = np.repeat(np.arange(count), number)
    owners = llfd_plain(keys.cost[of], psi[of], keys.owner[of], none[of], keys.workers, limit)
    by_key = np.zeros_like(by_record)
    np.add.at(by_key, (of, owners), 1)
    assert by_record.tolist() == by_key.tolist()


@given(
    st.integers(2, 6),
    st.integers(12, 60),
    st.integers(0, 2**32),
)
def test_theorem_1_bound(workers: int, share: int, seed: int) -> None:
    """Where a perfect assignment exists, no worker ends more than (1 - 1/n)/3 above the mean."""
    rng = np.random.default_rng(seed)
    parts = [
        np.diff([0, *sorted(rng.choice(np.arange(1, share), rng.integers(1, 5), False)), share])
        for _ in range(workers)
    ]
    cost = rng.permutation(np.concatenate(parts)).astype(float)
    owner = rng.integers(0, workers, len(cost)).astype(np.int32)
    new = llfd_owners(cost, cost, owner, np.zeros(len(cost), np.bool_), workers, float(share))
    loads = np.bincount(new, weights=cost, minlength=workers)
    assert loads.max() / share - 1 <= (1 - 1 / workers) / 3 + 1e-9


def test_mixed_keeps_the_table_bound_that_minmig_breaks() -> None:
    rng = np.random.default_rng(3)
    keys = crowded(rng)
    config = KeyConfig(max_table=150)
    loose = ALGORITHMS["minmig"](keys, config, rng)
    tight = ALGORITHMS["mixed"](keys, config, rng)
    brute = ALGORITHMS["mixedbf"](keys, config, rng)
    assert loose.table_size(keys) > 150
    assert tight.table_size(keys) <= 150
    assert tight.verdicts == brute.verdicts == ()
    moved = [keys.state[plan.owner != keys.owner].sum() for plan in (tight, brute)]
    assert moved[1] <= moved[0]


def test_mixed_degenerates_to_mintable_when_the_bound_cannot_be_kept() -> None:
    """Section V.B: it does when the smallest table for the balance exceeds the bound."""
    rng = np.random.default_rng(3)
    keys, config = crowded(rng), KeyConfig(max_imbalance=0.005, max_table=5)
    made, smallest = (ALGORITHMS[name](keys, config, rng) for name in ("mixed", "mintable"))
    assert smallest.table_size(keys) > 5
    assert made.table_size(keys) <= smallest.table_size(keys)
    assert [verdict.code for verdict in made.verdicts] == ["table_exceeded"]
    assert made.loads.max() <= 1.006 * keys.cost.sum() / keys.workers < keys.worker_loads().max()


def crowded(rng: np.random.Generator) -> KeyLoads:
    """Two thousand keys of which two hundred are in the table already, in the wrong places."""
    count, workers = 2000, 5
    cost = 1000.0 / np.arange(1, count + 1) ** 0.6
    home = rng.integers(0, workers, count)
    owner = home.copy()
    owner[rng.choice(count, 200, replace=False)] = 0
    return KeyLoads.from_arrays(cost, cost * rng.uniform(0.2, 3.0, count), home, owner, workers)
