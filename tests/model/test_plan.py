import numpy as np
import pytest

from evenflow.errors import InputError
from evenflow.model import (
    Move,
    Plan,
    RoutingTable,
    hash_keys,
    home_workers,
    jump_hash,
    moves_between,
)

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
