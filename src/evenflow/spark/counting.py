"""Who costs what inside a keyed query: rows, results and state of its keys on one worker.

Counted where the rows are, in time proportional to the batch's rows. The heaviest keys are told
one by one, the others added up, so a report has one size however many keys there are.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.jit import kernel
from evenflow.model import hash_keys
from evenflow.model.arrays import Bools, Floats, Hashes, Indices
from evenflow.spark.bundle import pack, unpack
from evenflow.spark.state import Task

MOST = 512
# What a key makes of its rows: pairs with what is kept, one answer a window, or a row each.
_MATCHING = frozenset({"join", "join_aggregate", "template"})
_NAME_LENGTH = 100
_SCHEMA = pa.schema(
    [
        ("query", pa.string()),
        ("hash", pa.uint64()),  # null: all the others together
        ("keys", pa.int64()),
        ("rows_in", pa.int64()),
        ("made", pa.float64()),
        ("state", pa.float64()),
        ("name", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class KeyCounts:
    """The keys of one keyed query on one worker in one batch, ascending by hash.

    rows_in  rows of the key
    made     rows that came of them, or pairs that were looked at for a match: an estimate
    state    bytes kept for the key
    names    the key's values as text; empty if the batch had no row of it
    rest_*   the same of all other keys; `rest_keys` counts those with rows in the batch
    """

    hashes: Hashes
    rows_in: Indices
    made: Floats
    state: Floats
    names: tuple[str, ...]
    rest_keys: int = 0
    rest_rows_in: int = 0
    rest_made: float = 0.0
    rest_state: float = 0.0

    @property
    def total_made(self) -> float:
        """All that was made."""
        return float(self.made.sum()) + self.rest_made


def count_keys(
    kind: str,
    rows: Mapping[str, pa.Table],
    columns: Mapping[str, tuple[str, ...]],
    task: Task,
    rows_out: int,
    listed: Hashes,
) -> KeyCounts:
    """Count a batch's rows by key; keys that are `listed` are told one by one in any case."""
    parts = [hash_keys(*(rows[stream][c] for c in columns[stream])) for stream in rows]
    found, number, first = tally(np.concatenate(parts) if parts else listed[:0])
    kept = task.kept(found)[0] if kind in _MATCHING else number
    made = _made(kind, len(columns), number, kept, rows_out)
    told = heaviest(number, made, MOST)
    if len(listed):
        told |= np.isin(found, listed)
    idle = np.setdiff1d(listed, found[told])  # of those told alone: sorting all takes longer
    none = np.zeros(len(idle), dtype=np.int64)
    order = np.argsort(np.concatenate([found[told], idle]))
    keys = np.concatenate([found[told], idle])[order]
    state = task.kept(keys)[1].astype(np.float64)
    unexplained = rows_out - float(made.sum()) if kind != "join_aggregate" else 0.0
    return KeyCounts(
        keys,
        np.concatenate([number[told], none])[order],
        np.concatenate([made[told], none])[order],
        state,
        _names(rows, columns, np.concatenate([first[told], none - 1])[order]),
        int(np.count_nonzero(~told)),
        int(number[~told].sum()),
        float(made[~told].sum()) + max(0.0, unexplained),
        max(0.0, float(task.state_bytes - state.sum())),
    )


def _made(kind: str, streams: int, rows_in: Indices, kept: Indices, rows_out: int) -> Floats:
    """Estimate what each key made, in sum what the query gave.

    Where rows are matched with all that is kept of their key (a self-join, a template) it is these
    pairs, whether or not they match: a join looks at all of them, and what a key costs must not
    depend on the keys beside it. Of several streams only some pairs meet, so that results are
    dealt to keys by their pairs. Matches that are added up further never show as results.
    """
    weight: Floats
    if kind in _MATCHING:
        weight = np.multiply(rows_in, kept, dtype=np.float64)
        if kind == "join_aggregate" or streams == 1:
            return weight
    else:
        weight = np.asarray(rows_in > 0 if kind == "aggregate" else rows_in, dtype=np.float64)
    total = float(weight.sum())
    return np.multiply(weight, rows_out / total) if total else weight


def heaviest(rows_in: Indices, made: Floats, most: int) -> Bools:
    """Tell the keys with the largest share of the rows in or of what was made.

    Whatever a row in and a row made cost, a key's share of the cost is at most the larger of the
    two. These add up to 2 at most, so no key left out has more than 2 / (most + 1) of it.
    """
    shares = np.maximum(rows_in / max(1, rows_in.sum()), made / (made.sum() or 1.0))
    told = np.ones(len(shares), dtype=np.bool_)
    if len(shares) > most:
        told[np.argpartition(-shares, most)[most:]] = False
    return told


def _names(
    rows: Mapping[str, pa.Table], columns: Mapping[str, tuple[str, ...]], at: Indices
) -> tuple[str, ...]:
    """Return the keys of rows, numbered through all streams, as text; -1 is no row."""
    names, begin = np.full(len(at), "", dtype=object), 0
    for stream, table in rows.items():
        here = np.flatnonzero((at >= begin) & (at < begin + len(table)))
        if len(here):
            places = pa.array(at[here] - begin)
            texts = [_text(table[column].take(places)) for column in columns[stream]]
            names[here] = [", ".join(values)[:_NAME_LENGTH] for values in zip(*texts, strict=True)]
        begin += len(table)
    return tuple(names.tolist())


def _text(values: pa.ChunkedArray) -> list[str]:
    try:
        texts = pc.fill_null(values.cast(pa.string()), "NULL").to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # bytes, structs
        texts = [str(value) for value in values.to_pylist()]
    return list(texts)


@kernel
def tally(hashes: Hashes) -> tuple[Hashes, Indices, Indices]:
    """Count equal hashes: each once, how often, and where first; in order of appearance."""
    keys = np.empty_like(hashes)
    number, first = np.zeros(len(hashes), dtype=np.int64), np.empty(len(hashes), dtype=np.int64)
    slots = np.full(1024, -1, dtype=np.int64)
    count = 0
    for row in range(len(hashes)):
        if 2 * count >= len(slots):
            slots = np.full(4 * len(slots), -1, dtype=np.int64)
            for key in range(count):
                slots[_slot(slots, keys, keys[key])] = key
        at = _slot(slots, keys, hashes[row])
        if slots[at] < 0:
            slots[at] = count
            keys[count], first[count] = hashes[row], row
            count += 1
        number[slots[at]] += 1
    return keys[:count], number[:count], first[:count]


@kernel
def _slot(slots: Indices, keys: Hashes, wanted: np.uint64) -> int:
    """Return the slot of a hash, or the free one that it would take."""
    mask = np.uint64(len(slots) - 1)
    at = wanted & mask
    while slots[at] >= 0 and keys[slots[at]] != wanted:
        at = (at + np.uint64(1)) & mask
    return int(at)


def tally_plain(hashes: Hashes) -> dict[int, tuple[int, int]]:
    """Count the same in plain Python, the kernel's oracle: hash -> (how often, where first)."""
    found: dict[int, tuple[int, int]] = {}
    for row, key in enumerate(hashes.tolist()):
        number, first = found.get(key, (0, row))
        found[key] = (number + 1, first)
    return found


def to_bytes(counts: Mapping[str, KeyCounts]) -> bytes:
    """Put the counts of all queries of a worker into one Arrow stream."""
    tables = []
    for query, found in counts.items():
        number = len(found.hashes)
        columns = (
            [query] * (number + 1),
            [*found.hashes.tolist(), None],
            [1] * number + [found.rest_keys],
            np.append(found.rows_in, found.rest_rows_in),
            np.append(found.made, found.rest_made),
            np.append(found.state, found.rest_state),
            [*found.names, ""],
        )
        arrays = [pa.array(v, f.type) for v, f in zip(columns, _SCHEMA, strict=True)]
        tables.append(pa.Table.from_arrays(arrays, schema=_SCHEMA))
    if not tables:
        return b""
    packed: bytes = pack(pa.concat_tables(tables), compress=True).to_pybytes()
    return packed


def from_bytes(packed: bytes) -> dict[str, KeyCounts]:
    """Read back what `to_bytes` gave."""
    if not packed:
        return {}
    table = unpack(packed).combine_chunks()
    queries, ends = table["query"], np.flatnonzero(table["hash"].is_null().to_numpy())
    found, begin = {}, 0
    for end in ends.tolist():
        part, rest = table.slice(begin, end - begin), table.slice(end, 1).to_pylist()[0]
        found[queries[end].as_py()] = KeyCounts(
            part["hash"].to_numpy(),
            part["rows_in"].to_numpy(),
            part["made"].to_numpy(),
            part["state"].to_numpy(),
            tuple(part["name"].to_pylist()),
            rest["keys"],
            rest["rows_in"],
            rest["made"],
            rest["state"],
        )
        begin = end + 1
    return found
