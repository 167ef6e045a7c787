import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.query_problems import problems, subscriptions

from evenflow.errors import InputError
from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries import Fleet, PlacementProblem, recommended_absolute_slack
from evenflow.planning.queries.metrics import (
    total_traffic,
    total_traffic_plain,
    traffic_lower_bound,
)
from evenflow.planning.queries.problem import relaxed_bound
from evenflow.planning.queries.query_types import group_queries, query_types, query_types_plain


@pytest.mark.parametrize(
    ("queries", "workers", "slack", "most"),
    [(100, 10, 0.05, 10), (200, 10, 0.05, 21), (100_000, 100, 0.05, 1050), (7, 3, 0.0, 3)],
)
def test_equation_1_in_whole_queries(queries: int, workers: int, slack: float, most: int) -> None:
    problem = PlacementProblem.of(
        Subscriptions.from_source_sets([[0]] * queries), Fleet.of(workers, slack)
    )
    assert np.floor(problem.capacities()).tolist() == [most] * workers


def test_equation_4_switches_from_absolute_to_relative() -> None:
    fleet = Fleet.of(10, slack=0.05, absolute_slack=10)
    assert relaxed_bound(10, 10, fleet) / 10 == pytest.approx(11)
    assert relaxed_bound(2000, 2000, fleet) / 10 == pytest.approx(210)
    assert relaxed_bound(4000, 4000, fleet) / 10 == pytest.approx(420)
    assert relaxed_bound(20, 10, fleet) / 10 == pytest.approx(22), "in queries of mean load"


def test_appendix_d_keeps_the_union_bound() -> None:
    assert recommended_absolute_slack(10, 0.1, 0.05) == pytest.approx(50 * np.log(200))
    with pytest.raises(InputError, match="positive slack"):
        recommended_absolute_slack(10, 0.0)


def test_more_pins_than_a_worker_holds() -> None:
    queries = Subscriptions.from_source_sets([[0]] * 100)
    pinned = np.zeros(100, dtype=np.int32)
    with pytest.raises(InputError, match=r"worker 0 holds a load of at most 60, .* need 100"):
        PlacementProblem.of(queries, Fleet.of(2), pinned)


def test_workers_that_do_not_exist() -> None:
    with pytest.raises(InputError, match=r"outside 0\.\.1"):
        PlacementProblem.of(
            Subscriptions.from_source_sets([[0]]), 2, current=np.array([2], dtype=np.int32)
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"queries": [[]]}, "no source"),
        ({"queries": [[0]], "rates": [0.0]}, "rates must be positive"),
        ({"queries": [[0]], "loads": [-1.0]}, "loads must be positive"),
        ({"queries": [[3]], "rates": [1.0]}, "outside 0..0"),
    ],
)
def test_subscriptions_that_make_no_sense(arguments: dict[str, list[float]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Subscriptions.from_source_sets(**arguments)  # type: ignore[arg-type]


@given(subscriptions())
def test_types_equal_the_plain_version(given_: Subscriptions) -> None:
    assert query_types(given_).tolist() == query_types_plain(given_)


@given(subscriptions(), st.sampled_from([np.inf, 1.0, 3.0]))
def test_groups_hold_every_query_once_and_only_equal_ones(
    given_: Subscriptions, most: float
) -> None:
    queries = np.arange(len(given_))
    groups = group_queries(given_, queries, most_load=most)
    assert sorted(groups.members.tolist()) == queries.tolist()
    for item in range(len(groups.size)):
        members = groups.members[groups.member_starts[item] : groups.member_starts[item + 1]]
        assert len(members) == groups.size[item]
        assert len(members) == 1 or groups.load[item] * len(members) <= most
        sources = groups.sources[
            groups.source_starts[item] : groups.source_starts[item + 1]
        ].tolist()
        for query in members:
            assert given_.sources_of_query(query).tolist() == sources
            assert given_.loads[query] == groups.load[item]


@given(problems())
def test_traffic_equals_the_plain_version(problem: PlacementProblem) -> None:
    queries = problem.subscriptions
    found = total_traffic(queries, problem.current, len(problem.fleet))
    assert found == pytest.approx(total_traffic_plain(queries, problem.current))


def test_lower_bound_counts_the_workers_a_source_must_have() -> None:
    problem = PlacementProblem.of(
        Subscriptions.from_source_sets([[0]] * 9 + [[1]], rates=[1.0, 5.0]), 2
    )
    assert traffic_lower_bound(problem, np.array([5.0, 5.0])) == 2 * 1 + 5
    assert traffic_lower_bound(problem, np.array([10.0, 10.0])) == 6
