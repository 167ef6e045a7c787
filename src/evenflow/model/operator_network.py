"""A network of operators without loops: chains, branches, unions and windowed joins."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenflow.errors import InputError
from evenflow.model.arrays import Floats, Indices, frozen

Edges = NDArray[np.int64]


def _empty_edges() -> Edges:
    return np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class OperatorNetwork:
    """What each operator costs, lets through and feeds.

    cost         seconds of CPU per input tuple
    selectivity  output tuples per input tuple; of a join: per pair of tuples that meet
    source_edges    (source, operator) pairs
    operator_edges  (operator, operator) pairs; an operator with several outgoing edges sends each
                    output tuple along all of them (a branch), one with several incoming edges
                    takes them as they come (a union)
    join_window_seconds  0, or the seconds by which the event times of two tuples may differ to
                         meet in a join of the operator's two incoming edges

    >>> two = OperatorNetwork.from_lists([1e-3, 1e-3], [0.5, 1.0], feeds=[(0, 0)], links=[(0, 1)])
    >>> len(two), two.source_count, two.topological_order.tolist(), two.sinks.tolist()
    (2, 1, [0, 1], [1])
    """

    cost: Floats
    selectivity: Floats
    source_edges: Edges
    operator_edges: Edges = field(default_factory=_empty_edges)
    join_window_seconds: Floats = field(default_factory=lambda: np.zeros(0))
    topological_order: Indices = field(init=False)

    def __post_init__(self) -> None:
        cost = frozen(self.cost, np.float64)
        window = self.join_window_seconds if len(self.join_window_seconds) else np.zeros(len(cost))
        for name, values in (
            ("cost", cost),
            ("selectivity", frozen(self.selectivity, np.float64)),
            ("join_window_seconds", frozen(window, np.float64)),
        ):
            object.__setattr__(self, name, values)
            if values.shape != cost.shape:
                raise InputError(f"{name} needs one entry for each of {len(cost)} operators")
            if not bool(np.isfinite(values).all()) or bool((values < 0).any()):
                raise InputError(f"{name} must be finite and not negative")
        for name in ("source_edges", "operator_edges"):
            edges = frozen(np.reshape(np.asarray(getattr(self, name)), (-1, 2)), np.int64)
            object.__setattr__(self, name, edges)
            if len(edges) and (edges.min() < 0 or edges[:, 1].max() >= len(cost)):
                raise InputError(f"{name} name an operator outside 0..{len(cost) - 1}")
        if len(self.operator_edges) and self.operator_edges.max() >= len(cost):
            raise InputError(f"operator_edges name an operator outside 0..{len(cost) - 1}")
        inputs = self.input_counts
        for join in np.flatnonzero(self.join_window_seconds > 0):
            if inputs[join] != 2:
                raise InputError(f"operator {join} joins {inputs[join]} inputs; a join takes two")
        object.__setattr__(
            self,
            "topological_order",
            frozen(_topological_order(len(cost), self.operator_edges), np.int64),
        )

    @classmethod
    def from_lists(
        cls,
        cost: ArrayLike,
        selectivity: ArrayLike,
        feeds: ArrayLike,
        links: ArrayLike = (),
        window: ArrayLike = (),
    ) -> "OperatorNetwork":
        """Build from lists."""
        return cls(
            np.asarray(cost, np.float64),
            np.asarray(selectivity, np.float64),
            np.asarray(feeds, np.int64),
            np.asarray(links, np.int64),
            np.asarray(window, np.float64),
        )

    def __len__(self) -> int:
        return len(self.cost)

    @property
    def source_count(self) -> int:
        """Number of input streams."""
        return int(self.source_edges[:, 0].max()) + 1 if len(self.source_edges) else 0

    @property
    def input_counts(self) -> Indices:
        """Number of incoming edges of each operator."""
        ends = np.concatenate([self.source_edges[:, 1], self.operator_edges[:, 1]])
        return np.bincount(ends, minlength=len(self)).astype(np.int64)

    @property
    def sinks(self) -> Indices:
        """Operators whose output leaves the network."""
        return np.setdiff1d(np.arange(len(self)), self.operator_edges[:, 0])


def _topological_order(operators: int, links: Edges) -> Indices:
    """Sort operators so that each stands after those that feed it; refuse loops."""
    waiting = np.bincount(links[:, 1], minlength=operators) if len(links) else np.zeros(operators)
    after: list[list[int]] = [[] for _ in range(operators)]
    for upstream, downstream in links.tolist():
        after[upstream].append(downstream)
    order = [operator for operator in range(operators) if not waiting[operator]]
    for operator in order:  # grows while it is walked
        for downstream in after[operator]:
            waiting[downstream] -= 1
            if not waiting[downstream]:
                order.append(downstream)
    if len(order) < operators:
        raise InputError(
            f"the network has a loop through operator {int(np.flatnonzero(waiting > 0)[0])}"
        )
    return np.asarray(order, dtype=np.int64)
