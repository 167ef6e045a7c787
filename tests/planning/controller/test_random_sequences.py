"""Anything may happen in any order: whatever does, every plan is valid and the flow settles."""

import numpy as np
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st
from tests.support.flows import history, keyed_demand, nothing_returns, plans, run

from evenflow.model import Plan, RoutingTable
from evenflow.planning.controller import Balancing, place_arriving_queries
from evenflow.research.key_workload import zipf_costs
from evenflow.research.synthetic_flow import QueryDemand, SyntheticFlow

WORKERS, KEYS = 4, 200

event = st.one_of(
    st.tuples(st.just("shift"), st.integers(0, 3)),
    st.tuples(st.just("drain"), st.integers(0, WORKERS - 1)),
    st.tuples(st.just("activate"), st.integers(0, WORKERS - 1)),
    st.tuples(st.just("arrive"), st.integers(1, 3)),
    st.tuples(st.just("leave"), st.integers(0, 5)),
    st.tuples(st.just("burst"), st.integers(0, 5)),
    st.tuples(st.just("rest"), st.integers(1, 4)),
)


class World:
    """A flow to which events happen; its lines say what happened."""

    def __init__(self, config: Balancing) -> None:
        self.config, self.epoch, self.number = config, 0, 0
        self.factor: dict[str, float] = {}
        counts = keyed_demand(lambda batch: self._costs(), KEYS)
        pinned = QueryDemand(lambda batch: np.array([0.05]), pinned=True)
        self.flow = SyntheticFlow(
            {"counts": counts, "pinned": pinned},
            Plan(WORKERS, {"pinned": 1}, {"counts": RoutingTable()}),
        )

    def _costs(self) -> np.ndarray:
        return zipf_costs(KEYS, 0.6, np.random.default_rng(self.epoch), 1.0)

    def happen(self, kind: str, value: int) -> None:
        flow = self.flow
        if kind == "shift":
            self.epoch = value
        elif kind == "drain":
            flow.drained |= {value}
        elif kind == "activate":
            flow.drained -= {value}
        elif kind == "arrive":
            self._arrive(value)
        elif kind == "leave":
            names = sorted(flow.next_plan.placement.keys() - {"pinned"})
            if names:
                flow.remove_query(names[value % len(names)])
        elif kind == "burst":
            self.factor[f"q{value}"] = 3.0
        run(flow, value if kind == "rest" else 1, self.config)

    def _arrive(self, count: int) -> None:
        names = [f"q{self.number + at}" for at in range(count)]
        self.number += count
        streams = {name: query.streams for name, query in self.flow.queries.items()}
        placed = place_arriving_queries(
            self.flow.next_plan, streams | dict.fromkeys(names, ("events",)), {}, self.config
        )
        assert placed.keys() == set(names)
        for name, worker in placed.items():
            self.flow.add_query(name, self._whole(name), worker)

    def _whole(self, name: str) -> QueryDemand:
        return QueryDemand(lambda batch: np.array([0.05 * self.factor.get(name, 1.0)]))


configs = st.builds(
    Balancing,
    budget_items=st.sampled_from([None, 1, 3]),
    order=st.sampled_from(["hot", "small"]),
    max_table=st.sampled_from([5, 3000]),
)


@settings(max_examples=8, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(event, max_size=10), configs)
def test_whatever_happens(events: list[tuple[str, int]], config: Balancing) -> None:
    world = World(config)
    note(f"replay: World({config}) then {events}")
    for kind, value in events:
        world.happen(kind, value)
    run(world.flow, 10 if config.budget_items is None else 40, config)
    note(history(world.flow))
    flow = world.flow
    nothing_returns(flow, config.cooldown)
    assert all(len(table) <= config.max_table for table in flow.next_plan.tables.values())
    wanted = flow.drained - {flow.next_plan.placement["pinned"]}
    if wanted != frozenset(range(WORKERS)):
        assert flow.plan.drained == wanted
        assert not flow.true_loads()[list(flow.plan.drained)].any()
    quiet = len(plans(flow))
    run(flow, 12, config)
    assert len(plans(flow)) - quiet <= 1
