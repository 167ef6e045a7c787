import numpy as np
import pytest

from evenflow.errors import InputError
from evenflow.model import (
    KeySplit,
    Move,
    Plan,
    RoutingTable,
    hash_keys,
    home_workers,
    jump_hash,
    moves_between,
)
from evenflow.storage import records

HASHES = hash_keys(np.arange(100))


def test_the_table_wins_over_the_hash_and_the_rest_follows_the_hash() -> None:
    away = (jump_hash(HASHES[:3], 4) + 1) % 4
    routed = RoutingTable.from_entries(HASHES[:3], away).route(HASHES, 4)
    assert routed[:3].tolist() == away.tolist()
    assert routed[3:].tolist() == jump_hash(HASHES[3:], 4).tolist()


def test_a_key_named_twice_is_refused() -> None:
    with pytest.raises(InputError, match="twice"):
        RoutingTable.from_entries(HASHES[[1, 1]], [0, 1])


def test_moves_are_the_difference_of_two_plans() -> None:
    home = jump_hash(HASHES, 4)
    stays, goes, returns = (int(h) for h in HASHES[:3])
    other = (home[:3] + 1) % 4
    before = Plan(
        4, {"a": 0, "gone": 1}, {"q": RoutingTable.from_entries(HASHES[[0, 2]], other[[0, 2]])}
    )
    after = Plan(
        4, {"a": 3, "new": 1}, {"q": RoutingTable.from_entries(HASHES[[0, 1]], other[[0, 1]])}
    )
    assert stays not in {move.key_hash for move in moves_between(before, after)}
    assert set(moves_between(before, after)) == {
        Move("a", 0, 3),
        Move("q", int(home[1]), int(other[1]), goes),
        Move("q", int(other[2]), int(home[2]), returns),
    }
    assert moves_between(after, after) == ()


def test_draining_moves_only_the_keys_of_the_drained_worker() -> None:
    before = home_workers(HASHES, 8, {2})
    after = home_workers(HASHES, 8, {2, 5})
    assert 5 not in after and 2 not in after
    assert (before == after)[before != 5].all()
    assert len(set(after[before == 5].tolist())) > 1, "its keys are spread over the others"
    assert home_workers(HASHES, 8).tolist() == jump_hash(HASHES, 8).tolist()
    assert set(home_workers(HASHES, 64, set(range(63))).tolist()) == {63}


def test_keys_need_an_active_worker() -> None:
    with pytest.raises(InputError, match="all 2 workers are drained"):
        home_workers(HASHES, 2, {0, 1})


KEYS = [int(key) for key in HASHES[:4]]


def test_a_split_key_is_routed_to_its_home() -> None:
    table = RoutingTable.from_entries(HASHES[:2], [3, 3]).with_splits(
        [KeySplit(KEYS[2], (2, 0), "s"), KeySplit(KEYS[1], (1, 3), "s")]
    )
    assert table.route(HASHES[:3], 4).tolist() == [3, 1, 2]
    assert len(table) == 3 and table.split_of(KEYS[0]) is None
    assert [split.key_hash for split in table.splits] == sorted(KEYS[1:3])


@pytest.mark.parametrize("owners", [(), (1,), (1, 1), (0, 1, 0)])
def test_a_split_needs_different_owners(owners: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="two or more different owners"):
        KeySplit(7, owners, "s")


def test_a_key_is_not_both_split_and_whole() -> None:
    split = KeySplit(KEYS[0], (1, 2), "s")
    with pytest.raises(InputError, match="both split and with one owner"):
        RoutingTable.from_entries(HASHES[:1], [1], [split])
    with pytest.raises(InputError, match="twice"):
        RoutingTable.from_entries(HASHES[:0], [], [split, split])


def test_a_drained_owner_leaves_a_split() -> None:
    splits = [KeySplit(KEYS[0], (1, 2, 3), "s"), KeySplit(KEYS[1], (3, 0), "s")]
    table = RoutingTable().with_splits([*splits, KeySplit(KEYS[2], (0, 1), "s")])
    left = table.without_workers({3, 0, 1})
    assert left.splits == ()
    assert left.route(HASHES[:1], 4, {0, 1, 3}).tolist() == [2], "the last owner keeps the key"
    assert left.route(HASHES[1:3], 4, {0, 1, 3}).tolist() == [2, 2], "these follow the hash"
    left = table.without_workers({3})
    assert left.split_of(KEYS[0]) == KeySplit(KEYS[0], (1, 2), "s")
    assert left.route(HASHES[1:2], 4, {3}).tolist() == [0]
    assert table.without_workers({7}) is table


def test_growth_and_shrinkage_of_a_split_are_moves() -> None:
    home = int(jump_hash(HASHES[:1], 4)[0])
    other = (home + 1) % 4
    plans = [
        Plan(4, {}, {"q": table})
        for table in (
            RoutingTable(),
            RoutingTable().with_splits([KeySplit(KEYS[0], (other, home), "s")]),
            RoutingTable().with_splits([KeySplit(KEYS[0], (other, home, (home + 2) % 4), "s")]),
            RoutingTable.from_entries(HASHES[:1], [other]),
        )
    ]
    three = (other, home, (home + 2) % 4)
    assert moves_between(plans[0], plans[1]) == (
        Move("q", home, other, KEYS[0], (home,), (other, home)),
    )
    assert moves_between(plans[1], plans[2]) == (
        Move("q", other, other, KEYS[0], (other, home), three),
    )
    assert moves_between(plans[2], plans[3]) == (Move("q", other, other, KEYS[0], three, (other,)),)
    assert moves_between(plans[2], plans[2]) == ()


def test_a_plan_with_splits_is_read_as_it_was_written() -> None:
    table = RoutingTable.from_entries(HASHES[:2], [3, 3]).with_splits(
        [KeySplit(2**64 - 1, (2, 0), "s")]
    )
    read = records.decode(records.encode(Plan(4, {}, {"q": table})), Plan)
    assert read.tables["q"].splits == table.splits
    assert read.tables["q"].hashes.tolist() == table.hashes.tolist()
