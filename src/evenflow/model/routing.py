"""Mixed routing F(k): a small table over a hash (mixed-key-routing, equation 1)."""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from evenflow.errors import InputError
from evenflow.model.arrays import Hashes, Workers, frozen
from evenflow.model.hashing import home_workers


def _empty_hashes() -> Hashes:
    return frozen((), np.uint64)


def _empty_owners() -> Workers:
    return frozen((), np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class RoutingTable:
    """The keys that do not go where the hash sends them, and where they go instead.

    Keys are known by their 64-bit hash, so one table serves keys of every type. Two keys that
    share a hash are routed, and moved, together: still one place for each key.

    >>> from evenflow.model import hash_keys
    >>> hashes = hash_keys(np.arange(5))
    >>> table = RoutingTable.from_entries(hashes[:1], [2])
    >>> table.route(hashes, workers=3).tolist()[0], len(table)
    (2, 1)
    """

    hashes: Hashes = field(default_factory=_empty_hashes)
    owners: Workers = field(default_factory=_empty_owners)

    def __post_init__(self) -> None:
        if len(self.hashes) != len(self.owners):
            raise InputError("a routing table needs one worker for each key")
        if bool((self.hashes[1:] <= self.hashes[:-1]).any()):
            raise InputError("a routing table names a key twice, or is not sorted: use of()")

    @classmethod
    def from_entries(cls, hashes: Hashes, owners: Workers | list[int]) -> "RoutingTable":
        """Build a table from entries in any order."""
        order = np.argsort(hashes, kind="stable")
        places = np.asarray(owners, np.int32)[order]
        return cls(frozen(hashes[order], np.uint64), frozen(places, np.int32))

    def __len__(self) -> int:
        return len(self.hashes)

    def without_workers(self, workers: Collection[int]) -> "RoutingTable":
        """Return the table without the entries of some workers: those keys follow the hash."""
        kept = ~np.isin(self.owners, list(workers))
        return (
            self if kept.all() else RoutingTable.from_entries(self.hashes[kept], self.owners[kept])
        )

    def route(self, hashes: Hashes, workers: int, drained: Collection[int] = ()) -> Workers:
        """Return the worker of each hashed key: the table's, else the hash's."""
        routed = home_workers(hashes, workers, drained)
        if len(self):
            at = np.minimum(np.searchsorted(self.hashes, hashes), len(self) - 1)
            listed = self.hashes[at] == hashes
            routed[listed] = self.owners[at[listed]]
        return routed
