"""Mixed routing F(k): a small table over a hash (mixed-key-routing, equation 1)."""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from evenflow.errors import InputError
from evenflow.model.arrays import Hashes, Workers, frozen
from evenflow.model.hashing import home_workers


@dataclass(frozen=True, slots=True, eq=False)
class RoutingTable:
    """The owners of keys that are not on the worker given by the hash.

    Keys are identified by their 64-bit hash, so a table works for keys of any type. Keys with the
    same hash are routed and moved together.

    >>> from evenflow.model import hash_keys
    >>> hashes = hash_keys(np.arange(5))
    >>> table = RoutingTable.from_entries(hashes[:1], [2])
    >>> table.route(hashes, workers=3).tolist()[0], len(table)
    (2, 1)
    """

    hashes: Hashes = field(default_factory=lambda: frozen((), np.uint64))
    owners: Workers = field(default_factory=lambda: frozen((), np.int32))

    def __post_init__(self) -> None:
        if len(self.hashes) != len(self.owners):
            raise InputError(
                f"a routing table needs one owner for each key, got {len(self.owners)} owners of "
                f"{len(self.hashes)} keys"
            )
        if bool((self.hashes[1:] <= self.hashes[:-1]).any()):
            raise InputError(
                "a routing table names a key twice or is not sorted; use from_entries()"
            )

    @classmethod
    def from_entries(cls, hashes: Hashes, owners: Workers | list[int]) -> "RoutingTable":
        """Build a table from entries in any order."""
        order = np.argsort(hashes, kind="stable")
        sorted_owners = np.asarray(owners, np.int32)[order]
        return cls(frozen(hashes[order], np.uint64), frozen(sorted_owners, np.int32))

    def __len__(self) -> int:
        return len(self.hashes)

    def without_workers(self, workers: Collection[int]) -> "RoutingTable":
        """Return the table without the entries of some workers; their keys follow the hash."""
        keep = ~np.isin(self.owners, list(workers))
        if keep.all():
            return self
        return RoutingTable.from_entries(self.hashes[keep], self.owners[keep])

    def route(self, hashes: Hashes, workers: int, drained: Collection[int] = ()) -> Workers:
        """Return the worker of each hashed key: from the table, else from the hash."""
        routed = home_workers(hashes, workers, drained)
        if len(self):
            at = np.minimum(np.searchsorted(self.hashes, hashes), len(self) - 1)
            listed = self.hashes[at] == hashes
            routed[listed] = self.owners[at[listed]]
        return routed
