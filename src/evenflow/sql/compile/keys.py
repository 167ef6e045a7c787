"""The columns by which a query's rows can be split over workers without changing a result.

Columns that a query makes equal, or passes on unchanged, form a class. A class is a key if rows
that meet agree on it: every input of every join has a column of the class, and so has every GROUP
BY among its columns. Rows with equal keys go to one worker, so no row misses a match or a group. A
subquery that is read twice counts as two: rows of one need not agree with rows of the other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.sql.catalog import Catalog
from evenflow.sql.query_plan import (
    SUBSCRIPTIONS_ALIAS,
    SUBSCRIPTIONS_STORE,
    AggregateNode,
    AnalyticNode,
    PlanNode,
    SelectNode,
    StoreId,
    UnionNode,
    nodes_bottom_up,
    source_streams,
)
from evenflow.sql.types import hash_compatible

ColumnId = tuple[str, str, str]  # path of the node, alias ("" for its result), column
SplitPoint = StoreId | str  # where rows are split: a store, or a stream by name
GROUP_ALIAS = "."  # the alias of the group columns of an aggregate node

KeyColumns = Mapping[str, tuple[str, ...]]  # of each stream


@dataclass
class QueryKeys:
    """The keys of one query: columns of all nodes grouped by equality (union-find).

    `reads` are the columns that the query uses of each stream. `split_points` are the columns of
    each stream and store, all of which must have a column of a class for it to be a key.
    """

    root: PlanNode
    catalog: Catalog
    reads: Mapping[str, set[str]]
    parent: dict[ColumnId, ColumnId] = field(default_factory=dict)
    split_points: list[tuple[SplitPoint, list[ColumnId]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._add_node(self.root, "")

    def infer(self) -> KeyColumns | None:
        """Return the key with the most columns, or None if the query cannot be split."""
        if self._is_stateless():
            return self._stateless_key()
        classes = [{p: names[0] for p, names in c.items()} for c in self._usable_classes()]
        classes = [names for names in classes if self._hash_compatible(names)]
        if not classes:
            return None
        streams = [point for point in classes[0] if isinstance(point, str)]
        return {stream: tuple(names[stream] for names in classes) for stream in streams}

    def check(self, key: KeyColumns) -> KeyColumns:
        """Return the key, or refuse it if it would separate rows that must meet."""
        for stream in source_streams(self.root):
            if not key.get(stream):
                raise InputError(f"the key has no column of stream {stream!r}; give one for each")
            known = self.catalog.streams[stream].schema.names
            for column in key[stream]:
                if column not in known:
                    raise InputError(
                        f"the key column {column!r} is not in {stream!r}, "
                        f"which has {', '.join(known)}"
                    )
        if self._is_stateless():
            return key
        if len({len(columns) for columns in key.values()}) > 1:
            raise InputError(f"the key has different numbers of columns: {dict(key)}")
        for columns in _aligned_columns(key):
            if self._class_of(columns) is None:
                names = " and ".join(f"{s}.{c}" for s, c in columns.items())
                best = self.infer()
                advice = f"split it by {dict(best)}" if best else "leave the key out (one worker)"
                raise InputError(
                    f"{names} cannot be the key: rows that differ in it are joined or grouped "
                    f"together; {advice}"
                )
            if not self._hash_compatible(columns):
                raise InputError(
                    "the key's columns are arrays or maps, or of different types; cast them before"
                )
        return key

    def store_keys(self, key: KeyColumns | None) -> Mapping[StoreId, tuple[str, ...]]:
        """Return the columns by which each store of the query is split."""
        keys: dict[StoreId, tuple[str, ...]] = {}
        if key is None or self._is_stateless():
            return keys
        for columns in _aligned_columns(key):
            for point, names in (self._class_of(columns) or {}).items():
                if not isinstance(point, str):
                    keys[point] = (*keys.get(point, ()), names[0])
        return keys

    def _add_node(self, node: PlanNode, path: str) -> None:
        if isinstance(node, UnionNode):
            for index, part in enumerate(node.parts):
                self._add_node(part, f"{path}/{index}")
                for mine, theirs in zip(node.relation.fields, part.relation.fields, strict=True):
                    self._unite((path, "", mine.name), (f"{path}/{index}", "", theirs.name))
        elif isinstance(node, AggregateNode):
            for name, key in node.lineage.items():
                self._unite((path, "", name), (path, GROUP_ALIAS, key))
            for index, feed in enumerate(node.feeds):
                self._add_node(feed, f"{path}/{index}")
                for key in node.keys:
                    self._unite((path, GROUP_ALIAS, key), (f"{path}/{index}", "", key))
            self._add_split_point((node.id, ""), path, GROUP_ALIAS, node.keys)
        elif isinstance(node, AnalyticNode):
            for name, column in node.lineage.items():
                self._unite((path, "", name), (path, GROUP_ALIAS, column))
            self._add_node(node.feed, f"{path}/0")
            for column in node.feed.relation.schema.names:
                self._unite((path, GROUP_ALIAS, column), (f"{path}/0", "", column))
            self._add_split_point((node.id, ""), path, GROUP_ALIAS, node.keys)
        else:
            self._add_select_node(node, path)

    def _add_select_node(self, node: SelectNode, path: str) -> None:
        for name, (alias, copied) in node.lineage.items():
            self._unite((path, "", name), (path, alias, copied))
        for (left, a), (right, b) in node.equal_columns:
            self._unite((path, left, a), (path, right, b))
        for item in node.inputs:
            below = f"{path}/{item.alias}"
            if isinstance(item.feed, str):
                names = self.catalog.streams[item.feed].schema.names
                self._add_split_point(item.feed, path, item.alias, names)
            else:
                self._add_node(item.feed, below)
                for column in item.feed.relation.fields:
                    self._unite((path, item.alias, column.name), (below, "", column.name))
            if item.buffer is not None:
                buffered = [name for name, _ in item.buffer.select]
                self._add_split_point((node.id, item.alias), path, item.alias, buffered)
        if node.joins_subscriptions:
            names = [n for p, a, n in self.parent if (p, a) == (path, SUBSCRIPTIONS_ALIAS)]
            self._add_split_point(SUBSCRIPTIONS_STORE, path, SUBSCRIPTIONS_ALIAS, names)

    def _add_split_point(
        self, point: SplitPoint, path: str, alias: str, names: Sequence[str]
    ) -> None:
        self.split_points.append((point, [(path, alias, name) for name in names]))

    def _find(self, column: ColumnId) -> ColumnId:
        """Return the representative of a column's class."""
        while (above := self.parent.setdefault(column, column)) != column:
            column = above
        return column

    def _unite(self, column: ColumnId, other: ColumnId) -> None:
        a, b = sorted((self._find(column), self._find(other)))
        self.parent[b] = a

    def _usable_classes(self) -> Iterator[Mapping[SplitPoint, list[str]]]:
        """List the classes with a column at every split point, by split point."""
        for representative in dict.fromkeys(self._find(c) for c in list(self.parent)):
            classes: dict[SplitPoint, list[str]] = {}
            for point, columns in self.split_points:
                names = [c[2] for c in columns if self._find(c) == representative]
                classes[point] = [n for n in classes.get(point, names) if n in names]
            if all(classes.values()):
                yield classes

    def _class_of(self, columns: Mapping[str, str]) -> Mapping[SplitPoint, list[str]] | None:
        """Return the class that the given columns of all streams belong to."""
        for candidate in self._usable_classes():
            if all(column in candidate[stream] for stream, column in columns.items()):
                return candidate
        return None

    def _is_stateless(self) -> bool:
        return not any(
            isinstance(n, AggregateNode | AnalyticNode)
            or (isinstance(n, SelectNode) and (len(n.inputs) > 1 or n.joins_subscriptions))
            for n in nodes_bottom_up(self.root)
        )

    def _hash_compatible(self, columns: Mapping[SplitPoint, str] | Mapping[str, str]) -> bool:
        """Return whether equal values in the streams' columns have equal hashes."""
        streams = [(self.catalog.streams[s], c) for s, c in columns.items() if isinstance(s, str)]
        return hash_compatible(*(stream.schema.field(c).type for stream, c in streams))

    def _stateless_key(self) -> KeyColumns:
        """Split a query without state evenly: by its time and all scalar columns it reads."""
        key = {}
        for name in source_streams(self.root):
            stream = self.catalog.streams[name]
            scalars = [f.name for f in stream.schema if not pa.types.is_nested(f.type)]
            key[name] = tuple(c for c in scalars if c == stream.time or c in self.reads[name])
        return key


def normalize_key(key: object, streams: tuple[str, ...]) -> KeyColumns:
    """Return the columns per stream of a key given as a name, names, or a mapping of streams."""
    if isinstance(key, Mapping):
        extra = sorted(set(key) - set(streams))
        if extra:
            raise InputError(f"the key names {extra[0]!r}, which the query does not read")
        return {str(s): _column_names(columns) for s, columns in key.items()}
    return {stream: _column_names(key) for stream in streams}


def _column_names(key: object) -> tuple[str, ...]:
    names = (key,) if isinstance(key, str) else tuple(key)  # type: ignore[arg-type]
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"a key is a column name or several, got {key!r}")
    return names


def _aligned_columns(key: KeyColumns) -> Iterator[Mapping[str, str]]:
    """List the first columns of all streams, the second columns, and so on."""
    for index in range(len(next(iter(key.values())))):
        yield {stream: columns[index] for stream, columns in key.items()}
