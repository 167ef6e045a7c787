"""Mixed routing F(k): a small table over a hash (mixed-key-routing, equation 1), and split keys."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from evenflow.errors import InputError
from evenflow.model.arrays import Hashes, Indices, Workers, frozen
from evenflow.model.hashing import home_workers

FEW_SPLITS = 16  # up to this number, comparing with each is faster than searching


@dataclass(frozen=True, slots=True)
class KeySplit:
    """A key that several workers share; `owners[0]` is its home, which merges partial results.

    Rows of the stream `fragmented` are divided over the owners; rows of every other stream go to
    all of them.
    """

    key_hash: int
    owners: tuple[int, ...]
    fragmented: str

    def __post_init__(self) -> None:
        if len(self.owners) < 2 or len(set(self.owners)) < len(self.owners):
            raise InputError(
                f"a split key needs two or more different owners, got {list(self.owners)} for key "
                f"#{self.key_hash:016x}; a key with one owner belongs to the entries of the table"
            )

    @property
    def home(self) -> int:
        """The first owner."""
        return self.owners[0]

    def owners_of(self, contents: Hashes) -> Workers:
        """Return the owner of each divided row, given the hashes of their contents."""
        return owners_by_content(self.owners, contents)


def owners_by_content(owners: Sequence[int], contents: Hashes) -> Workers:
    """Return one of some owners for each row, given the hashes of their contents.

    It depends on nothing else, so a batch that runs again divides its rows alike.
    """
    chosen: Workers = np.array(owners, np.int32)[(contents % np.uint64(len(owners))).astype(int)]
    return chosen


@dataclass(frozen=True, slots=True, eq=False)
class RoutingTable:
    """The owners of keys that are not on the worker given by the hash, and the keys that are split.

    Keys are identified by their 64-bit hash, so a table works for keys of any type. Keys with the
    same hash are routed, moved and split together. A split key is not also in `hashes`.

    >>> from evenflow.model import hash_keys
    >>> hashes = hash_keys(np.arange(5))
    >>> table = RoutingTable.from_entries(hashes[:1], [2])
    >>> table.route(hashes, workers=3).tolist()[0], len(table)
    (2, 1)
    >>> split = table.with_splits([KeySplit(int(hashes[0]), (1, 2), "trades")])
    >>> split.route(hashes, workers=3).tolist()[0], len(split)
    (1, 1)
    """

    hashes: Hashes = field(default_factory=lambda: frozen((), np.uint64))
    owners: Workers = field(default_factory=lambda: frozen((), np.int32))
    splits: tuple[KeySplit, ...] = ()

    def __post_init__(self) -> None:
        if len(self.hashes) != len(self.owners):
            raise InputError(
                f"a routing table needs one owner for each key, got {len(self.owners)} owners of "
                f"{len(self.hashes)} keys"
            )
        split = self.split_hashes
        if bool((self.hashes[1:] <= self.hashes[:-1]).any()) or bool(
            (split[1:] <= split[:-1]).any()
        ):
            raise InputError(
                "a routing table names a key twice or is not sorted; use from_entries()"
            )
        if self.splits and np.isin(split, self.hashes).any():
            raise InputError(
                "a routing table has a key both split and with one owner; use with_splits()"
            )

    @classmethod
    def from_entries(
        cls, hashes: Hashes, owners: Workers | list[int], splits: Iterable[KeySplit] = ()
    ) -> "RoutingTable":
        """Build a table from entries and splits in any order."""
        order = np.argsort(hashes, kind="stable")
        sorted_owners = np.asarray(owners, np.int32)[order]
        ordered = tuple(sorted(splits, key=lambda split: split.key_hash))
        return cls(frozen(hashes[order], np.uint64), frozen(sorted_owners, np.int32), ordered)

    def __len__(self) -> int:
        return len(self.hashes) + len(self.splits)

    @property
    def split_hashes(self) -> Hashes:
        """The hashes of the split keys, ascending."""
        return np.array([split.key_hash for split in self.splits], dtype=np.uint64)

    def split_of(self, key_hash: int) -> KeySplit | None:
        """Return how a key is split, if it is."""
        at = bisect_left(self.splits, key_hash, key=attrgetter("key_hash"))
        found = self.splits[at : at + 1]
        return found[0] if found and found[0].key_hash == key_hash else None

    def split_rows(self, hashes: Hashes) -> tuple[Indices, Indices]:
        """Return the rows whose keys are split, and the positions of their splits."""
        if len(self.splits) <= FEW_SPLITS:
            found = [np.flatnonzero(hashes == np.uint64(split.key_hash)) for split in self.splits]
            none = np.zeros(0, dtype=np.int64)
            rows = np.concatenate([none, *found])
            return rows, np.repeat(np.arange(len(found)), [len(at) for at in found])
        split = self.split_hashes
        at = np.minimum(np.searchsorted(split, hashes), len(split) - 1)
        rows = np.flatnonzero(split[at] == hashes)
        return rows, at[rows]

    def owners_of_rows(self, splits: Indices, contents: Hashes) -> Workers:
        """Return the owner of each divided row, given its split and the hash of its content."""
        counts = np.array([len(split.owners) for split in self.splits], dtype=np.uint64)
        begins = np.cumsum(counts) - counts
        flat = np.array([owner for split in self.splits for owner in split.owners], np.int32)
        chosen: Workers = flat[(begins[splits] + contents % counts[splits]).astype(np.int64)]
        return chosen

    def with_splits(self, splits: Iterable[KeySplit]) -> "RoutingTable":
        """Return the table with exactly these split keys; their single owners are dropped.

        A key that is no longer split follows the hash: give it an entry to keep it elsewhere.
        """
        splits = tuple(splits)
        split = np.array([split.key_hash for split in splits], dtype=np.uint64)
        keep = ~np.isin(self.hashes, split)
        return RoutingTable.from_entries(self.hashes[keep], self.owners[keep], splits)

    def without_workers(self, workers: Collection[int]) -> "RoutingTable":
        """Return the table without the entries of some workers; their keys follow the hash.

        A split key stays with its other owners; a single one becomes an entry.
        """
        gone = set(workers)
        keep = ~np.isin(self.owners, list(gone))
        if keep.all() and not any(gone.intersection(split.owners) for split in self.splits):
            return self
        left = [(s, tuple(o for o in s.owners if o not in gone)) for s in self.splits]
        single = [(s.key_hash, owners[0]) for s, owners in left if len(owners) == 1]
        return RoutingTable.from_entries(
            np.append(self.hashes[keep], np.array([key for key, _ in single], dtype=np.uint64)),
            [*self.owners[keep].tolist(), *(owner for _, owner in single)],
            [KeySplit(s.key_hash, owners, s.fragmented) for s, owners in left if len(owners) > 1],
        )

    def route(self, hashes: Hashes, workers: int, drained: Collection[int] = ()) -> Workers:
        """Return the worker of each hashed key: from the table, else from the hash.

        The worker of a split key is its home.
        """
        routed = home_workers(hashes, workers, drained)
        if len(self.hashes):
            at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
            listed = self.hashes[at] == hashes
            routed[listed] = self.owners[at[listed]]
        if self.splits:
            rows, splits = self.split_rows(hashes)
            routed[rows] = np.array([split.home for split in self.splits], np.int32)[splits]
        return routed
