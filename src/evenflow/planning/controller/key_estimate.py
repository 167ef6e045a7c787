"""What the keys of a query cost, estimated from the batches since its shares last changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.model import KeyLoads, KeyStats, Plan, Snapshot, home_workers
from evenflow.model.arrays import Floats, Hashes, Workers
from evenflow.planning.controller.predict import key_position, redistribute_rest
from evenflow.planning.controller.sampling_error import rest_variances
from evenflow.planning.controller.shrinkage import expected_counts, shrink_to_mean

MIN_KEY_ROWS = 5  # a key with fewer rows counts as light: it may have none in the next batch


@dataclass(frozen=True, slots=True, eq=False)
class KeyEstimate:
    """The keys of a query, averaged over batches; workers are positions in `plan.active`.

    The arrays list the heavy keys, then one entry per worker for everything else on it: the light
    keys and fixed cost of the query (`light_load`), and the load of all other queries.

    noise     standard deviation of the cost from batch to batch, by chance
    shared    part of the cost that every owner of a split pays; all of it if a key cannot be split
    split_by  stream to split each heavy key by
    splits    heavy keys that are split, and their owners
    measured  the statistics behind it, for names
    """

    query: str
    hashes: Hashes
    cost: Floats
    state_bytes: Floats
    home: Workers
    owner: Workers
    light_load: Floats
    noise: Floats
    plan: Plan
    shared: Floats
    split_by: tuple[str, ...]
    splits: Mapping[int, tuple[int, ...]]
    measured: tuple[KeyStats, ...] = ()

    @property
    def heavy(self) -> slice:
        """The entries of the heavy keys."""
        return slice(0, len(self.hashes))

    @property
    def immovable(self) -> slice:
        """The entries of everything else, one per worker."""
        return slice(len(self.hashes), len(self.cost))

    def key_loads(self, state: Floats | None = None) -> KeyLoads:
        """Return the keys as the input of a planner, with other sizes of state if given."""
        immovable = np.zeros(len(self.cost), dtype=np.bool_)
        immovable[self.immovable] = True
        return KeyLoads(
            cost=self.cost,
            state=self.state_bytes if state is None else state,
            home=self.home,
            owner=self.owner,
            workers=len(self.plan.active),
            immovable=immovable,
            shared=self.shared,
            splits=self.splits,
            hashes=np.append(self.hashes, np.zeros(len(self.cost) - len(self.hashes), np.uint64)),
            noise=self.noise,
        )

    def worker_loads(self) -> Floats:
        """Return the load of each active worker."""
        return self.key_loads().worker_loads()

    def query_loads(self) -> Floats:
        """Return the load of this query alone on each active worker."""
        other_queries = self.cost[self.immovable] - self.light_load
        result: Floats = self.worker_loads() - other_queries
        return result

    def least_costs(self, max_owners: int) -> Floats:
        """Return the smallest piece of each heavy key, with as many owners as there may be."""
        shared, owners = self.shared[self.heavy], min(max_owners, len(self.plan.active))
        result: Floats = shared + (self.cost[self.heavy] - shared) / max(owners, 1)
        return result

    def mean_load_when_split(self, max_owners: int) -> float:
        """Return the mean load of a worker once keys heavier than that are split.

        What every owner of a key has adds to it; a key for which that is too much stays whole.
        """
        loads, most = self.worker_loads(), min(max_owners, len(self.plan.active))
        least = mean = float(loads.mean())
        for key in np.flatnonzero(self.cost[self.heavy] > least).tolist():
            cost, shared = float(self.cost[key]), float(self.shared[key])
            if key in self.splits or shared >= cost:
                continue
            owners = min((cost - shared) / max(least - shared, 1e-9 * least) + 1, most)
            with_copies = mean + shared * (owners - 1) / len(loads)
            mean = with_copies if with_copies < cost else mean
        return mean

    def cost_share(self, key: int) -> float:
        """Return the part of the query's load that a key has."""
        total = float(self.cost[self.heavy].sum() + self.light_load.sum())
        return float(self.cost[key]) / total if total > 0 else 0.0

    def display_name(self, key: int) -> str:
        """Return the name of a key for messages: its hash if the name is not known."""
        key_hash = int(self.hashes[key])
        for stats in reversed(self.measured):
            at = key_position(stats.hashes, key_hash)
            if at is not None and at < len(stats.names):
                return stats.names[at]
        return f"#{key_hash:016x}"


def estimate_keys(
    snapshots: Sequence[Snapshot], name: str, plan: Plan, load: float, other_queries: Floats
) -> KeyEstimate:
    """Average the keys of a query over batches with key statistics, and correct for chance.

    A key with few rows was listed by luck and counts as light. `load` is that of the query on all
    workers, `other_queries` that of the others on each worker.
    """
    stats = [(s, keys) for s in snapshots if (keys := s.queries[name].keys) is not None]
    total = sum(float(keys.cost.sum() + keys.rest_cost.sum()) for _, keys in stats)
    scale = load / total if total else 0.0
    hashes, at = np.unique(np.concatenate([k.hashes for _, k in stats]), return_inverse=True)
    costs = np.concatenate([k.cost for _, k in stats])
    cost: Floats = (scale * np.bincount(at, costs, len(hashes))).astype(np.float64)
    shared = np.bincount(at, np.concatenate([k.shared_cost for _, k in stats]), len(hashes))
    shared_part = np.minimum(shared * scale / np.maximum(cost, 1e-300), 1.0)
    counted = np.concatenate([k.rows for _, k in stats])
    rows: Floats = np.bincount(at, counted, len(hashes)).astype(np.float64)
    state_bytes, light = np.zeros(len(hashes)), np.zeros((2, plan.workers))
    parts = np.split(at, np.cumsum([len(k.hashes) for _, k in stats])[:-1])
    for (snapshot, keys), part in zip(stats, parts, strict=True):
        state_bytes[part] = keys.state_bytes  # the newest wins
        variance = rest_variances(snapshot.queries[name], keys)
        light[0] += redistribute_rest(keys.rest_cost, snapshot.plan, plan) * scale
        light[1] += redistribute_rest(variance, snapshot.plan, plan) * scale**2
    streams = _split_streams(snapshots, name)
    active = list(plan.active)
    workers = np.arange(len(active), dtype=np.int32)
    position = np.full(plan.workers, -1, dtype=np.int32)
    position[active] = workers
    homes = position[home_workers(hashes, plan.workers, plan.drained)]
    owners = position[plan.route(name, hashes)]
    owners = np.where(owners < 0, homes, owners)
    table = plan.tables[name]
    listed = np.concatenate([table.hashes, table.split_hashes])
    heavy = (rows >= MIN_KEY_ROWS) | np.isin(hashes, listed)
    owner, few = owners[~heavy], cost[~heavy]
    light_load = light[0, active] + np.bincount(owner, few, len(active))
    lucky = np.bincount(owner, few**2 / np.maximum(rows[~heavy], 1), len(active))
    light_load = shrink_to_mean(light_load, light[1, active] + lucky)
    usual_cost = _usual_cost(cost[heavy], rows[heavy])
    noise = usual_cost * np.sqrt(len(stats) / np.maximum(rows[heavy], 1))
    split_by = ("",) * int(heavy.sum())
    if streams:
        split_by = tuple(streams.get(key, "") for key in hashes[heavy].tolist())
    divisible = np.array([bool(stream) for stream in split_by], dtype=np.bool_)
    splits = {
        key: tuple(int(position[owner]) for owner in split.owners)
        for split in table.without_workers(plan.drained).splits
        if (key := key_position(hashes[heavy], split.key_hash)) is not None
    }
    owner_of_key = owners[heavy]
    for key, workers_of_key in splits.items():
        owner_of_key[key] = workers_of_key[0]
    immovable_load = light_load + other_queries
    return KeyEstimate(
        query=name,
        hashes=hashes[heavy],
        cost=np.concatenate([usual_cost, immovable_load]),
        state_bytes=np.concatenate([state_bytes[heavy], np.zeros(len(active))]),
        home=np.concatenate([homes[heavy], workers]),
        owner=np.concatenate([owner_of_key, workers]).astype(np.int32),
        light_load=light_load,
        noise=np.append(noise, np.zeros(len(active))),
        plan=plan,
        shared=np.concatenate(
            [usual_cost * np.where(divisible, shared_part[heavy], 1.0), immovable_load]
        ),
        split_by=split_by,
        splits=splits,
        measured=tuple(keys for _, keys in stats),
    )


def _split_streams(snapshots: Sequence[Snapshot], name: str) -> dict[int, str]:
    """Return the stream to split each key by, as told last; keys that cannot be split have none."""
    streams: dict[int, str] = {}
    for snapshot in snapshots:
        query = snapshot.queries[name]
        if query.keys is not None and query.split_streams:
            streams |= dict(zip(query.keys.hashes.tolist(), query.keys.split_by, strict=True))
    return streams


def _usual_cost(cost: Floats, rows: Floats) -> Floats:
    """Return what keys with such counts of rows cost on average; the sum stays the same."""
    usual = cost * np.where(rows > 0, expected_counts(rows) / np.maximum(rows, 1), 1.0)
    result: Floats = usual * (cost.sum() / usual.sum()) if usual.sum() > 0 else cost
    return result
