"""The heaviest keys, and the history of one. Pure functions."""

from dataclasses import asdict

from evenflow import model
from evenflow.display import printable
from evenflow.model.move_history import past_moves
from evenflow.model.snapshot import KeyStats
from evenflow.service.keys_schema import HotKeyInfo, KeyHistoryInfo, KeyPoint, PastMoveInfo
from evenflow.service.present import MAX_KEY_CHARACTERS, SHOWN_KEYS, ObservedRun


def hot_key_infos(
    seen: ObservedRun, query: str | None = None, count: int = SHOWN_KEYS
) -> list[HotKeyInfo]:
    """Return the heaviest keys of one keyed query, or of all."""
    infos = [
        HotKeyInfo(
            query=name,
            key=printable(key.name, MAX_KEY_CHARACTERS),
            share=key.share,
            owner=key.owner,
            owners=list(key.owners),
        )
        for name in seen.plan.tables
        if query in (None, name)
        for key in model.hot_keys(seen.snapshots, name, count)
    ]
    return sorted(infos, key=lambda key: (-key.share, key.query, key.key))[:count]


def key_history(seen: ObservedRun, query: str, key: str) -> KeyHistoryInfo | None:
    """Return a key over the last batches; None if none of them measured it.

    `key` is a name as the API shows it.
    """
    points, key_hash, name = [], None, key
    for snapshot in seen.snapshots:
        load = snapshot.queries.get(query)
        index = None if load is None or load.keys is None else _index_of(load.keys, key)
        if load is None or load.keys is None or index is None:
            continue
        key_hash, name = int(load.keys.hashes[index]), load.keys.names[index]
        points.append(
            KeyPoint(
                batch=snapshot.batch,
                at=snapshot.at,
                share=round(float(load.keys.cost_shares()[index]), 5),
                cpu_seconds=round(float(load.keys.cost[index]), 6),
                owners=list(snapshot.plan.owners_of_key(query, key_hash)),
            )
        )
    if key_hash is None:
        return None
    plan = seen.snapshots[-1].next_plan
    moves = past_moves(seen.snapshots, seen.decisions, seen.outcomes, query=query, key=name)
    return KeyHistoryInfo(
        query=query,
        key=key,
        owners=list(plan.owners_of_key(query, key_hash)) if query in plan.tables else [],
        points=points,
        moves=[PastMoveInfo.model_validate(asdict(move)) for move in reversed(moves)],
    )


def _index_of(keys: KeyStats, shown: str) -> int | None:
    """Return where a key is, by its name as it is shown."""
    for index, name in enumerate(keys.names):
        if shown in (name, printable(name, MAX_KEY_CHARACTERS)):
            return index
    return None
