"""The history of one key or one query: when it moved, why, and what came of it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model.decision import Decision, Outcome
from evenflow.model.hashing import hash_keys
from evenflow.model.plan import Move
from evenflow.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class PastMove:
    """One move of a query or key; `batch` is the number of the decision.

    before, after  worker; -1: all workers (a query that became keyed)
    owners_before, owners_after  workers of a split key
    load           CPU seconds of the moved item in that batch; None if it was not measured
    imbalance      before the decision, predicted, and measured afterwards if it was
    """

    batch: int
    at: float
    query: str
    key: str | None
    before: int
    after: int
    owners_before: tuple[int, ...]
    owners_after: tuple[int, ...]
    trigger: str
    reason: str
    message: str
    load: float | None
    imbalance: float
    predicted: float | None
    measured: float | None


def past_moves(
    snapshots: Sequence[Snapshot],
    decisions: Iterable[Decision],
    outcomes: Iterable[Outcome],
    *,
    query: str | None = None,
    key: str | None = None,
) -> list[PastMove]:
    """Return the moves of a query, of a key, or of a key of a query, oldest first; else all."""
    names = key_names(snapshots)
    hashes = None if key is None else _key_hashes(names, key)
    measured = {outcome.decision: outcome for outcome in outcomes}
    by_batch = {snapshot.batch: snapshot for snapshot in snapshots}
    found = []
    for decision in decisions:
        for move in decision.moves:
            wanted_query = query is None or move.query == query
            wanted_key = hashes is None or (move.key_hash is not None and move.key_hash in hashes)
            if wanted_query and wanted_key:
                snapshot = by_batch.get(decision.batch)
                outcome = measured.get(decision.batch)
                found.append(_past_move(decision, move, names, snapshot, outcome))
    return found


def key_names(snapshots: Iterable[Snapshot]) -> dict[tuple[str, int], str]:
    """Return the names of keys that were measured, by query and hash."""
    names: dict[tuple[str, int], str] = {}
    for snapshot in snapshots:
        for query, load in snapshot.queries.items():
            if load.keys is not None:
                pairs = zip(load.keys.hashes.tolist(), load.keys.names, strict=True)
                names.update({((query, key_hash), name) for key_hash, name in pairs})
    return names


def move_load(move: Move, snapshot: Snapshot | None) -> float | None:
    """Return the CPU seconds of a moved query or key in a batch; None if it was not measured."""
    load = None if snapshot is None else snapshot.queries.get(move.query)
    if load is None:
        return None
    if move.key_hash is None:
        return float(load.load.sum())
    if load.keys is None:
        return None
    found = (load.keys.hashes == move.key_hash).nonzero()[0]
    return float(load.keys.cost[found[0]]) if len(found) else None


def heaviest_moves(
    decision: Decision, snapshot: Snapshot | None
) -> list[tuple[Move, float | None]]:
    """Return the moves of a decision with the load of each, heaviest first."""
    loads = [(move, move_load(move, snapshot)) for move in decision.moves]
    return sorted(loads, key=lambda pair: -(pair[1] or 0.0))


def _past_move(
    decision: Decision,
    move: Move,
    names: Mapping[tuple[str, int], str],
    snapshot: Snapshot | None,
    outcome: Outcome | None,
) -> PastMove:
    key = None
    if move.key_hash is not None:
        key = names.get((move.query, move.key_hash), f"#{move.key_hash:016x}")
    return PastMove(
        batch=decision.batch,
        at=decision.at,
        query=move.query,
        key=key,
        before=move.before,
        after=move.after,
        owners_before=move.owners_before,
        owners_after=move.owners_after,
        trigger=decision.trigger,
        reason=decision.reason,
        message=decision.message,
        load=move_load(move, snapshot),
        imbalance=decision.before.imbalance,
        predicted=None if decision.predicted is None else decision.predicted.imbalance,
        measured=None if outcome is None else outcome.measured.imbalance,
    )


def _key_hashes(names: Mapping[tuple[str, int], str], key: str) -> set[int]:
    """Return the hashes that a key may have: as it was measured, as a text and as a number."""
    found = {key_hash for (_, key_hash), name in names.items() if name == key}
    if key.startswith("#"):
        try:
            found.add(int(key[1:], 16))
        except ValueError:
            raise InputError(f"{key!r} is not a key hash; write # and 16 hex digits") from None
    found.add(int(hash_keys(pa.array([key]))[0]))
    if key.lstrip("-").isdecimal() and len(key) < 19:
        found.add(int(hash_keys(pa.array([int(key)]))[0]))
    return found
