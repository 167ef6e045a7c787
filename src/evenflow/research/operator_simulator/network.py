"""An acyclic network of operators: chains, branches, unions and windowed joins."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenflow.errors import InputError
from evenflow.model.arrays import Floats, Indices, freeze_arrays, frozen, require_all_non_negative

Edges = NDArray[np.int64]


def _empty_edges() -> Edges:
    return np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class OperatorNetwork:
    """The cost, selectivity and edges of each operator.

    cost                 CPU seconds per input tuple
    selectivity          output tuples per input tuple; of a join: per pair of tuples that match
    source_edges         (source, operator) pairs
    operator_edges       (operator, operator) pairs; with several outgoing edges, each output tuple
                         goes along all of them (branch); several incoming edges are a union
    join_window_seconds  0, or the largest difference of event times of two tuples that match in a
                         join of the operator's two incoming edges

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
        count = len(self.cost)
        if not len(self.join_window_seconds):
            object.__setattr__(self, "join_window_seconds", np.zeros(count))
        for name in ("source_edges", "operator_edges"):
            object.__setattr__(self, name, np.reshape(getattr(self, name), (-1, 2)))
        freeze_arrays(self)
        for name in ("cost", "selectivity", "join_window_seconds"):
            values = getattr(self, name)
            if values.shape != (count,):
                raise InputError(f"{name} needs one entry for each of {count} operators")
            require_all_non_negative(name, values)
        for name, edges, operators in (
            ("source_edges", self.source_edges, self.source_edges[:, 1]),
            ("operator_edges", self.operator_edges, self.operator_edges),
        ):
            if len(edges) and (edges.min() < 0 or operators.max() >= count):
                raise InputError(f"{name} name an operator outside 0..{count - 1}")
        inputs = self.input_counts
        for join in np.flatnonzero(self.join_window_seconds > 0):
            if inputs[join] != 2:
                raise InputError(f"operator {join} joins {inputs[join]} inputs; a join takes two")
        order = _topological_order(count, self.operator_edges)
        object.__setattr__(self, "topological_order", frozen(order, np.int64))

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
    """Sort operators so that each comes after its inputs; refuse loops."""
    inputs = np.bincount(links[:, 1], minlength=operators) if len(links) else np.zeros(operators)
    outputs: list[list[int]] = [[] for _ in range(operators)]
    for upstream, downstream in links.tolist():
        outputs[upstream].append(downstream)
    order = [operator for operator in range(operators) if not inputs[operator]]
    for operator in order:  # grows during the loop
        for downstream in outputs[operator]:
            inputs[downstream] -= 1
            if not inputs[downstream]:
                order.append(downstream)
    if len(order) < operators:
        raise InputError(
            f"the network has a loop through operator {int(np.flatnonzero(inputs > 0)[0])}"
        )
    return np.asarray(order, dtype=np.int64)
