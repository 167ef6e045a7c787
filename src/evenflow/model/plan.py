"""Plans, and the moves between two of them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from evenflow.errors import InputError
from evenflow.model.arrays import Hashes, Workers
from evenflow.model.facts import facts_html, facts_line
from evenflow.model.routing import RoutingTable

StreamsByQuery = Mapping[str, tuple[str, ...]]  # what each query reads


@dataclass(frozen=True, slots=True)
class Plan:
    """The worker of each whole query, and the routing table of each keyed query.

    The number of `workers` is fixed for a checkpoint; `drained` ones get no work.
    """

    workers: int
    placement: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, RoutingTable] = field(default_factory=dict)
    drained: frozenset[int] = frozenset()

    @property
    def active(self) -> tuple[int, ...]:
        """The workers that are not drained, ascending."""
        return tuple(worker for worker in range(self.workers) if worker not in self.drained)

    def facts(self) -> dict[str, object]:
        """Return what people want to know of a plan."""
        routed = sum(len(table) for table in self.tables.values())
        return {
            "workers": self.workers,
            "drained": ", ".join(map(str, sorted(self.drained))) or "none",
            "whole queries": len(self.placement),
            "keyed queries": len(self.tables),
            "keys routed by table": routed,
        }

    def __repr__(self) -> str:
        return facts_line("Plan", self.facts())

    def _repr_html_(self) -> str:
        return facts_html("Plan", self.facts())

    def route(self, query: str, hashes: Hashes) -> Workers:
        """Return the worker of each hashed key of a keyed query."""
        return self.tables[query].route(hashes, self.workers, self.drained)

    def owners_of_key(self, query: str, key_hash: int) -> tuple[int, ...]:
        """Return the owners of a key of a keyed query, its home first."""
        split = self.tables[query].split_of(key_hash)
        if split is not None:
            return split.owners
        return (int(self.route(query, np.array([key_hash], dtype=np.uint64))[0]),)


EVERYWHERE = -1  # stands for the workers of a keyed query in a move


@dataclass(frozen=True, slots=True)
class Move:
    """One difference between two plans: a whole query, or one key of a keyed query.

    A whole query that becomes keyed moves to EVERYWHERE; the reverse moves from there. Of a key
    that is split before or after, `before` and `after` are its homes, and `owners_before` and
    `owners_after` all its workers; they are empty for every other move.
    """

    query: str
    before: int
    after: int
    key_hash: int | None = None
    owners_before: tuple[int, ...] = ()
    owners_after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Transfer:
    """State of a query that was transferred from one worker to another, summed over keys."""

    query: str
    before: int
    after: int
    bytes: int


def moves_between(before: Plan, after: Plan) -> tuple[Move, ...]:
    """Return the moves from one plan to another, in a fixed order.

    Arrivals and departures are not moves. If other workers are drained, the hash also moves keys
    that are in no table; those are not listed. Another number of workers is refused.

    >>> moves_between(Plan(2, {"alerts": 0, "pairs": 1}), Plan(2, {"alerts": 1, "pairs": 1}))[0]
    Move(query='alerts', before=0, after=1, key_hash=None, owners_before=(), owners_after=())
    """
    whole = [
        Move(query, before.placement[query], after.placement[query])
        for query in sorted(before.placement.keys() & after.placement.keys())
        if before.placement[query] != after.placement[query]
    ]
    whole += [
        Move(query, before.placement[query], EVERYWHERE)
        for query in sorted(before.placement.keys() & after.tables.keys())
    ]
    whole += [
        Move(query, EVERYWHERE, after.placement[query])
        for query in sorted(before.tables.keys() & after.placement.keys())
    ]
    if before.workers != after.workers and before.tables.keys() & after.tables.keys():
        raise InputError(
            f"keyed queries cannot change from {before.workers} to {after.workers} workers; the "
            "number of workers is fixed for a checkpoint"
        )
    keys: list[Move] = []
    for query in sorted(before.tables.keys() & after.tables.keys()):
        old, new = before.tables[query], after.tables[query]
        split = np.union1d(old.split_hashes, new.split_hashes)
        listed = np.setdiff1d(np.union1d(old.hashes, new.hashes), split, assume_unique=True)
        sources, targets = before.route(query, listed), after.route(query, listed)
        keys += [
            Move(query, int(sources[key]), int(targets[key]), int(listed[key]))
            for key in np.flatnonzero(sources != targets)
        ]
        keys += _split_moves(query, split.tolist(), before, after)
    return (*whole, *keys)


def _split_moves(query: str, keys: Iterable[int], before: Plan, after: Plan) -> list[Move]:
    """Return the moves of keys that are split before or after."""
    owners = [(k, before.owners_of_key(query, k), after.owners_of_key(query, k)) for k in keys]
    return [Move(query, o[0], n[0], key, o, n) for key, o, n in owners if o != n]


def arrived_queries(before: Plan, after: Plan) -> dict[str, int]:
    """Return the queries that are only in the second plan, and their workers.

    >>> arrived_queries(Plan(2, {"a": 0}), Plan(2, {"a": 0, "b": 1}, {"c": RoutingTable()}))
    {'b': 1, 'c': -1}
    """
    hosted = {**after.placement, **dict.fromkeys(after.tables, EVERYWHERE)}
    arrived = hosted.keys() - before.placement.keys() - before.tables.keys()
    return {name: hosted[name] for name in sorted(arrived)}


def place_on_fewest_queries(plan: Plan, names: Iterable[str]) -> dict[str, int]:
    """Place whole queries one by one on the active worker that hosts the fewest.

    >>> place_on_fewest_queries(Plan(2, {"a": 0}), ["b", "c"])
    {'b': 1, 'c': 0}
    """
    hosted = Counter(plan.placement.values())
    placed = {}
    for name in names:
        placed[name] = min(plan.active, key=lambda worker: hosted[worker])
        hosted[placed[name]] += 1
    return placed


def may_move_state(before: Plan, after: Plan) -> bool:
    """Tell whether state may have to be transferred between two plans."""
    rehashed = before.drained != after.drained and before.tables.keys() & after.tables.keys()
    return bool(rehashed) or bool(moves_between(before, after))


def moves_from_worker(before: Plan, after: Plan, worker: int) -> list[Move]:
    """Return one move for each query and other worker that may get state from this worker."""
    pairs: set[tuple[str, int]] = set()
    others = [other for other in after.active if other != worker]
    for move in moves_between(before, after):
        if move.owners_before:
            owners = set(move.owners_after) if worker in move.owners_before else set()
            pairs.update((move.query, target) for target in owners - {worker})
        elif move.before in (worker, EVERYWHERE) and move.after != worker:
            targets = others if move.after == EVERYWHERE else [move.after]
            pairs.update((move.query, target) for target in targets)
    if before.drained != after.drained:  # then the hash moves keys that are not in any table
        shared = before.tables.keys() & after.tables.keys()
        pairs.update((query, target) for query in shared for target in others)
    return [Move(query, worker, target) for query, target in sorted(pairs)]
