"""The rules of a query for split keys, and the pairs of rows that its joins examine."""

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from evenflow.model import KeySplit
from evenflow.model.arrays import Floats, Hashes, Indices
from evenflow.sql.query_plan import PlanNode, SelectNode, source_streams
from evenflow.sql.split_plan import SplitPlan, SplitPolicy, split_plan
from evenflow.sql.tasks.join_state import JoinState
from evenflow.sql.tasks.split_keys import TaskSplits


class SplitRules:
    """The rules of one task, by the streams that keys are split by; found on first use."""

    def __init__(self, root: PlanNode, joins: Mapping[int, JoinState]) -> None:
        self._root = root
        self._joins = joins
        self._plans: dict[str, SplitPlan] = {}

    def plan(self, stream: str) -> SplitPlan:
        """Return the rules for keys that are split by a stream."""
        if stream not in self._plans:
            plan = split_plan(self._root, stream)
            if plan is None:
                raise ValueError(f"the keys of this query cannot be split by {stream!r}")
            self._plans[stream] = plan
        return self._plans[stream]

    def policy(self, label: str, stream: str) -> SplitPolicy:
        """Return where the store with this label has the rows of a key split by a stream."""
        kind, _, rest = label.partition(":")
        if kind == "waiting":
            divided = rest in self.plan(stream).divided
            return SplitPolicy.FRAGMENT if divided else SplitPolicy.REPLICA
        if kind != "join":
            return SplitPolicy.HOME if kind == "panes" else SplitPolicy.REPLICA
        node, side = map(int, rest.split(":"))
        join = self._joins[node]
        shared = join.distinct_sides()[side]
        alias = next(alias for alias, found in join.sides.items() if found is shared)
        return self.plan(stream).stores[node, alias]

    def roles(self, node: SelectNode, splits: TaskSplits) -> dict[str, list[KeySplit]]:
        """Return the inputs of a join that count only rows of this worker, for some split keys."""
        roles: dict[str, list[KeySplit]] = {}
        for split in splits.keys:
            alias = self.plan(split.fragmented).roles.get(node.id)
            if alias is not None:
                roles.setdefault(alias, []).append(split)
        return roles

    def examined_pairs(
        self,
        keys: Hashes,
        stored_rows: Mapping[str, Indices],
        new_rows: Mapping[str, Indices],
        splits: TaskSplits,
    ) -> Floats:
        """Count the pairs of new and stored rows of two inputs, for each join.

        If all owners of a split key store all its rows, each examines its part of the pairs.
        """
        pairs: Floats = np.zeros(len(keys))
        for node_id, join in self._joins.items():
            sides = join.distinct_sides()
            new, stored = {}, {}
            for item in join.node.inputs:
                feed = item.feed
                streams = (feed,) if isinstance(feed, str) else source_streams(feed)
                new[item.alias] = sum(new_rows[stream] for stream in streams)
                stored[item.alias] = stored_rows[
                    f"join:{node_id}:{sides.index(join.sides[item.alias])}"
                ]
            examined: Floats = np.zeros(len(keys))
            for one, other in combinations(new, 2):
                examined += (new[one] * stored[other] + new[other] * stored[one]) / 2
            for shared in self.roles(join.node, splits).values():
                for split in shared:
                    examined[keys == np.uint64(split.key_hash)] /= len(split.owners)
            pairs += examined
        return pairs
