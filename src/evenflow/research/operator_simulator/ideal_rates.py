"""Ideal loads (borealis-load-distribution, section 2.2).

The load of operator o in a sample is lambda(o) p(o): the tuples that would reach it if no worker
were overloaded, times its cost per tuple. The rates follow from the rates of the sources and the
selectivities upstream, so a queue on an overloaded worker does not distort what the planner sees.

A join with window w meets pairs of tuples at most w apart in event time, so that inputs of rates
a and b make 2 w a b pairs a second.
"""

import numpy as np

from evenflow.model.arrays import Floats
from evenflow.research.operator_simulator.network import OperatorNetwork


def ideal_rates(
    network: OperatorNetwork, source_rates: Floats, selectivity: Floats | None = None
) -> Floats:
    """Return tuples per second into each operator, a row each, for each sample of the sources.

    `selectivity` may give measured selectivities per sample instead of the network's own.

    >>> chain = OperatorNetwork.from_lists([1e-3, 1e-3], [0.5, 1.0], feeds=[(0, 0)], links=[(0, 1)])
    >>> ideal_rates(chain, np.array([[10.0, 40.0]])).tolist()
    [[10.0, 40.0], [5.0, 20.0]]
    """
    rates = np.atleast_2d(np.asarray(source_rates, dtype=np.float64))
    samples = rates.shape[1]
    passed = network.selectivity[:, None] if selectivity is None else selectivity
    passed = np.broadcast_to(passed, (len(network), samples))
    arriving = np.zeros((len(network), samples))
    product = np.ones((len(network), samples))
    for source, operator in network.source_edges.tolist():
        arriving[operator] += rates[source]
        product[operator] *= rates[source]
    after: list[list[int]] = [[] for _ in range(len(network))]
    for upstream, downstream in network.operator_edges.tolist():
        after[upstream].append(downstream)
    for operator in network.topological_order.tolist():
        window = network.join_window_seconds[operator]
        meeting = 2 * window * product[operator] if window else arriving[operator]
        leaving = passed[operator] * meeting
        for downstream in after[operator]:
            arriving[downstream] += leaving
            product[downstream] *= leaving
    return arriving


def ideal_loads(
    network: OperatorNetwork, source_rates: Floats, selectivity: Floats | None = None
) -> Floats:
    """Return the load of each operator, a row each, for each sample of the source rates."""
    loads: Floats = ideal_rates(network, source_rates, selectivity) * network.cost[:, None]
    return loads
