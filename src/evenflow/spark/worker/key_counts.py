"""Who costs what inside a keyed query: rows, results and state of its keys on one worker.

Counted where the rows are, in time proportional to the batch's rows. The heaviest keys are told
one by one, the others added up, so a report has one size however many keys there are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.jit import kernel
from evenflow.model import hash_keys
from evenflow.model.arrays import Bools, Floats, Hashes, Indices
from evenflow.sql import Task
from evenflow.storage.bundle import pack, unpack

MAX_LISTED_KEYS = 512
_ONE_PER_ROW = np.zeros(0, dtype=np.int64)
# What a key makes of its rows: pairs with what is kept, one answer a window, or a row each.
_PAIRING_KINDS = frozenset({"join", "join_aggregate", "template"})
_MAX_NAME_LENGTH = 100
_KEY_COUNTS_SCHEMA = pa.schema(
    [
        ("hash", pa.uint64()),  # null: all the others together
        ("keys", pa.int64()),
        ("rows_in", pa.int64()),
        ("made", pa.float64()),
        ("state", pa.float64()),
        ("name", pa.string()),  # of all the others: the query's
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class KeyCounts:
    """The keys of one keyed query on one worker in one batch.

    rows_in  rows of the key
    produced  rows that came of them, or pairs that were looked at for a match: an estimate
    state_bytes  bytes kept for the key
    names    the key's values as an Arrow array of text; empty if the batch had no row of it
    rest_*   the same of all other keys; `rest_keys` counts those with rows in the batch
    """

    hashes: Hashes
    rows_in: Indices
    produced: Floats
    state_bytes: Floats
    names: pa.Array
    rest_keys: int = 0
    rest_rows_in: int = 0
    rest_produced: float = 0.0
    rest_state_bytes: float = 0.0

    @property
    def total_produced(self) -> float:
        """All that was made."""
        return float(self.produced.sum()) + self.rest_produced


def count_keys(
    kind: str,
    rows: Mapping[str, pa.Table],
    columns: Mapping[str, tuple[str, ...]],
    task: Task,
    rows_out: int,
    listed: Hashes,
) -> KeyCounts:
    """Count a batch's rows by key; keys that are `listed` are told one by one in any case."""
    known = task.grouped_row_counts(sum(map(len, rows.values())))
    if known is None:
        values = [[rows[s][c].combine_chunks() for c in columns[s]] for s in rows]
    else:  # the query has grouped its rows: there is less to count
        values = [known[0]]
    hashes = [hash_keys(*key) for key in values]
    found, number, first = count_hashes(
        hashes[0] if len(hashes) == 1 else np.concatenate(hashes),
        _ONE_PER_ROW if known is None else known[1],
    )
    matched = task.key_rows_and_bytes(found) if kind in _PAIRING_KINDS else None
    made = _estimate_produced(
        kind, len(columns), number, number if matched is None else matched[0], rows_out
    )
    told, idle = heaviest_keys(number, made, MAX_LISTED_KEYS), listed
    if len(listed):
        told |= np.isin(found, listed)
        idle = np.setdiff1d(listed, found[told])  # of those told alone: sorting all takes longer
    some, rest = np.flatnonzero(told), ~told
    none = np.zeros(len(idle), dtype=np.int64)
    keys = np.concatenate([found[some], idle])
    if matched is None:
        state = task.key_rows_and_bytes(keys)[1]
    else:
        state = np.concatenate(
            [matched[1][some], task.key_rows_and_bytes(idle)[1] if len(idle) else none]
        )
    unexplained = rows_out - float(made.sum()) if kind != "join_aggregate" else 0.0
    return KeyCounts(
        keys,
        np.concatenate([number[some], none]),
        np.concatenate([made[some], none]),
        state.astype(np.float64),
        _key_names(values, np.concatenate([first[some], none - 1])),
        len(found) - len(some),
        int(number[rest].sum()),
        float(made[rest].sum()) + max(0.0, unexplained),
        max(0.0, float(task.state_bytes - state.sum())),
    )


def _estimate_produced(
    kind: str, streams: int, rows_in: Indices, kept: Indices, rows_out: int
) -> Floats:
    """Estimate what each key made, in sum what the query gave.

    Where rows are matched with all that is kept of their key (a self-join, a template) it is these
    pairs, whether or not they match: a join looks at all of them, and what a key costs must not
    depend on the keys beside it. Of several streams only some pairs meet, so that results are
    dealt to keys by their pairs. Matches that are added up further never show as results.
    """
    weight: Floats
    if kind in _PAIRING_KINDS:
        weight = np.multiply(rows_in, kept, dtype=np.float64)
        if kind == "join_aggregate" or streams == 1:
            return weight
    else:
        weight = np.asarray(rows_in > 0 if kind == "aggregate" else rows_in, dtype=np.float64)
    total = float(weight.sum())
    return np.multiply(weight, rows_out / total) if total else weight


def heaviest_keys(rows_in: Indices, made: Floats, most: int) -> Bools:
    """Tell the keys with the largest share of the rows in or of what was made.

    Whatever a row in and a row made cost, a key's share of the cost is at most the larger of the
    two. These add up to 2 at most, so no key left out has more than 2 / (most + 1) of it.
    """
    shares = np.maximum(rows_in / max(1, rows_in.sum()), made / (made.sum() or 1.0))
    told = np.ones(len(shares), dtype=np.bool_)
    if len(shares) > most:
        told[np.argpartition(-shares, most)[most:]] = False
    return told


def _key_names(values: Iterable[list[pa.Array]], at: Indices) -> pa.Array:
    """Return the keys of rows, numbered through all streams, as text; -1 is no row.

    `values` are the columns of the key in each stream.
    """
    texts, places, begin = [], [], 0
    for columns in values:
        here = np.flatnonzero((at >= begin) & (at < begin + len(columns[0])))
        if len(here):
            chosen = pa.array(at[here] - begin)
            parts = [_to_text(column.take(chosen)) for column in columns]
            text = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, ", ")
            texts.append(pc.utf8_slice_codeunits(text, 0, _MAX_NAME_LENGTH))
            places.append(here)
        begin += len(columns[0])
    idle = np.flatnonzero(at < 0)
    if len(idle) or not texts:
        texts.append(pa.array([""] * len(idle), pa.string()))
        places.append(idle)
    together = pa.concat_arrays(texts)
    return together if len(texts) == 1 else together.take(np.argsort(np.concatenate(places)))


def _to_text(values: pa.Array) -> pa.Array:
    try:
        texts = values.cast(pa.string())
        texts = pc.fill_null(texts, "NULL") if texts.null_count else texts
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # bytes, structs
        texts = pa.array([str(value) for value in values.to_pylist()])
    return texts


@kernel
def count_hashes(hashes: Hashes, numbers: Indices) -> tuple[Hashes, Indices, Indices]:
    """Count equal hashes: each once, how often, and where first; in order of appearance.

    Each counts as its number says, or as one if there are no numbers. Takes memory for the keys
    that there are, not for the rows.
    """
    slots = np.full(2048, -1, dtype=np.int64)
    keys = np.empty(len(slots) // 2, dtype=np.uint64)
    number, first = np.empty((2, len(keys)), dtype=np.int64)
    row, count = _count_until_full(hashes, numbers, 0, slots, keys, number, first, 0)
    while row < len(hashes):
        slots = np.full(4 * len(slots), -1, dtype=np.int64)
        keys, number, first = _grow(keys), _grow(number), _grow(first)
        for key in range(count):
            slots[_find_bucket(slots, keys, keys[key])] = key
        row, count = _count_until_full(hashes, numbers, row, slots, keys, number, first, count)
    return keys[:count], number[:count], first[:count]


@kernel
def _count_until_full(
    hashes: Hashes,
    numbers: Indices,
    row: int,
    slots: Indices,
    keys: Hashes,
    number: Indices,
    first: Indices,
    count: int,
) -> tuple[int, int]:
    """Count from a row on, as far as there is room; return the row not counted yet."""
    while row < len(hashes):
        at = _find_bucket(slots, keys, hashes[row])
        if slots[at] < 0:
            if count == len(keys):
                return row, count
            slots[at] = count
            keys[count], number[count], first[count] = hashes[row], 0, row
            count += 1
        number[slots[at]] += numbers[row] if len(numbers) else 1
        row += 1
    return row, count


@kernel
def _grow(values: Any) -> Any:
    wide = np.empty(4 * len(values), dtype=values.dtype)
    wide[: len(values)] = values
    return wide


@kernel
def _find_bucket(slots: Indices, keys: Hashes, wanted: np.uint64) -> int:
    """Return the slot of a hash, or the free one that it would take."""
    mask = np.uint64(len(slots) - 1)
    at = wanted & mask
    while slots[at] >= 0 and keys[slots[at]] != wanted:
        at = (at + np.uint64(1)) & mask
    return int(at)


def count_hashes_reference(hashes: Hashes, numbers: Indices) -> dict[int, tuple[int, int]]:
    """Count the same in plain Python, the kernel's oracle: hash -> (how often, where first)."""
    found: dict[int, tuple[int, int]] = {}
    for row, key in enumerate(hashes.tolist()):
        number, first = found.get(key, (0, row))
        found[key] = (number + (int(numbers[row]) if len(numbers) else 1), first)
    return found


def encode_key_counts(counts: Mapping[str, KeyCounts]) -> bytes:
    """Put the counts of all queries of a worker into one Arrow stream."""
    batches = []
    for query, found in counts.items():
        number = len(found.hashes)
        is_rest = np.arange(number + 1) == number
        columns = (
            pa.array(np.append(found.hashes, np.uint64(0)), mask=is_rest),
            np.where(is_rest, found.rest_keys, 1),
            np.append(found.rows_in, found.rest_rows_in),
            np.append(found.produced, found.rest_produced),
            np.append(found.state_bytes, found.rest_state_bytes),
            pa.concat_arrays([found.names, pa.array([query])]),
        )
        arrays = [pa.array(v, f.type) for v, f in zip(columns, _KEY_COUNTS_SCHEMA, strict=True)]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=_KEY_COUNTS_SCHEMA))
    if not batches:
        return b""
    packed: bytes = pack(pa.Table.from_batches(batches)).to_pybytes()
    return packed


def decode_key_counts(packed: bytes) -> dict[str, KeyCounts]:
    """Read back what `encode_key_counts` gave: a batch of rows for each query, the others' sum last."""
    found = {}
    for batch in unpack(packed).to_batches() if packed else ():
        number = batch.num_rows - 1
        rest = batch.slice(number).to_pylist()[0]
        heavy = batch.slice(0, number)
        found[rest["name"]] = KeyCounts(
            heavy["hash"].to_numpy(),
            heavy["rows_in"].to_numpy(),
            heavy["made"].to_numpy(),
            heavy["state"].to_numpy(),
            heavy["name"],
            rest["keys"],
            rest["rows_in"],
            rest["made"],
            rest["state"],
        )
    return found
