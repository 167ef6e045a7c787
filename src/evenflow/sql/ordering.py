"""Put hashes in order: hashes are spread evenly, so their first bits nearly do it.

Rows are dealt to buckets by the first bits of their hash, and only the few of one bucket are
compared. A bucket is large where a key has many rows; it is sorted by merging then, so that two
such keys in one bucket cost no more than sorting does.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Hashes, Indices

_INSERTION_SORT_MAX = 32


@kernel
def sort_hashes(hashes: Hashes, bits: int) -> tuple[Hashes, Indices, Indices]:
    """Return the hashes in order, where each stood, and the directory; equal ones as they stood.

    Hashes that begin with the bits b come from `directory[b]` to `directory[b + 1]`.
    """
    shift, number = np.uint64(64 - bits), 1 << bits
    directory = np.zeros(number + 1, dtype=np.int64)
    for row in range(len(hashes)):
        directory[(hashes[row] >> shift) + np.uint64(1)] += 1
    for bucket in range(number):
        directory[bucket + 1] += directory[bucket]
    ordered = np.empty_like(hashes)
    places = np.empty(len(hashes), dtype=np.int64)
    free = directory[:-1].copy()
    for row in range(len(hashes)):
        bucket = hashes[row] >> shift
        ordered[free[bucket]], places[free[bucket]] = hashes[row], row
        free[bucket] += 1
    for bucket in range(number):
        first, last = directory[bucket], directory[bucket + 1]
        if last - first > _INSERTION_SORT_MAX:
            if (ordered[first + 1 : last] >= ordered[first : last - 1]).all():
                continue  # mostly it is one key
            order = np.argsort(ordered[first:last], kind="mergesort")
            ordered[first:last] = ordered[first:last][order]
            places[first:last] = places[first:last][order]
            continue
        for row in range(first + 1, last):
            value, place, to = ordered[row], places[row], row
            while to > first and ordered[to - 1] > value:
                ordered[to], places[to] = ordered[to - 1], places[to - 1]
                to -= 1
            ordered[to], places[to] = value, place
    return ordered, places, directory


def sort_hashes_plain(hashes: Hashes, bits: int) -> tuple[Hashes, Indices, Indices]:
    """Return the same by NumPy's own sort: the kernel's oracle."""
    places = np.argsort(hashes, kind="stable")
    firsts = (hashes >> np.uint64(64 - bits)).astype(np.int64)
    counts = np.bincount(firsts, minlength=1 << bits)
    return hashes[places], places, np.concatenate([[0], np.cumsum(counts)])


def directory_bits(number: int) -> int:
    """Return how many first bits leave a few hashes in a bucket, with a directory that is small."""
    return min(max(number.bit_length() - 3, 1), 18)
