"""By which columns a query's rows can be split over workers without changing an answer.

Columns that a query makes equal, or passes on unchanged, form a class. A class is a key if rows
that ever meet agree on it: every input of every join has a column of the class, and every GROUP BY
has one among its columns. Then rows that agree on the class go to one worker, and no row ever
misses a partner or a group. A subquery that is read twice counts as two: a row of the one need not
agree with a row of the other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.sql.catalog import Catalog
from evenflow.sql.query_plan import AggregateNode, PlanNode, SelectNode, UnionNode, nodes_bottom_up
from evenflow.sql.translate.translator import SUBSCRIPTIONS_ALIAS
from evenflow.sql.types import hash_compatible

ColumnId = tuple[str, str, str]  # path of the node, alias ("" for its result), name
SplitPoint = tuple[int, str] | str  # a store (node, alias), or a stream by name
GROUP_ALIAS = "."  # the alias under which a Group's own columns are known
SUBSCRIPTIONS_STORE: SplitPoint = (-1, "")

KeyColumns = Mapping[str, tuple[str, ...]]


@dataclass
class ColumnClasses:
    """Columns of all nodes, grouped by equality (union-find); `split_points` say where rows are split."""

    parent: dict[ColumnId, ColumnId] = field(default_factory=dict)
    split_points: list[tuple[SplitPoint, list[ColumnId]]] = field(default_factory=list)

    def find(self, column: ColumnId) -> ColumnId:
        """Return the representative of a column's class."""
        while (above := self.parent.setdefault(column, column)) != column:
            column = above
        return column

    def unite(self, one: ColumnId, other: ColumnId) -> None:
        """Make two columns equal."""
        a, b = sorted((self.find(one), self.find(other)))
        self.parent[b] = a

    def add_node(self, node: PlanNode, path: str, catalog: Catalog) -> None:
        """Take in a node and what is below it."""
        if isinstance(node, UnionNode):
            for at, part in enumerate(node.parts):
                self.add_node(part, f"{path}/{at}", catalog)
                names = zip(node.relation.fields, part.relation.fields, strict=True)
                for mine, theirs in names:
                    self.unite((path, "", mine.name), (f"{path}/{at}", "", theirs.name))
        elif isinstance(node, AggregateNode):
            for name, key in node.lineage.items():
                self.unite((path, "", name), (path, GROUP_ALIAS, key))
            for at, feed in enumerate(node.feeds):
                self.add_node(feed, f"{path}/{at}", catalog)
                for key in node.keys:
                    self.unite((path, GROUP_ALIAS, key), (f"{path}/{at}", "", key))
            self.split_points.append(
                ((node.id, ""), [(path, GROUP_ALIAS, key) for key in node.keys])
            )
        else:
            self._add_select_node(node, path, catalog)

    def _add_select_node(self, node: SelectNode, path: str, catalog: Catalog) -> None:
        for name, (alias, column) in node.lineage.items():
            self.unite((path, "", name), (path, alias, column))
        for (left, a), (right, b) in node.equal_columns:
            self.unite((path, left, a), (path, right, b))
        for item in node.inputs:
            below = f"{path}/{item.alias}"
            if isinstance(item.feed, str):
                names = catalog.streams[item.feed].schema.names
                self.split_points.append((item.feed, [(path, item.alias, n) for n in names]))
            else:
                self.add_node(item.feed, below, catalog)
                for entry in item.feed.relation.fields:
                    self.unite((path, item.alias, entry.name), (below, "", entry.name))
            if item.buffer is not None:
                kept = [(path, item.alias, name) for name, _ in item.buffer.select]
                self.split_points.append(((node.id, item.alias), kept))
        if _joins_subscriptions(node):
            names = [n for p, a, n in list(self.parent) if (p, a) == (path, SUBSCRIPTIONS_ALIAS)]
            self.split_points.append(
                (SUBSCRIPTIONS_STORE, [(path, SUBSCRIPTIONS_ALIAS, n) for n in names])
            )

    def columns_by_split_point(self, wanted: ColumnId) -> Mapping[SplitPoint, list[str]] | None:
        """Name the class's columns at every place; None if a place has none."""
        found: dict[SplitPoint, list[str]] = {}
        for place, columns in self.split_points:
            names = [c[2] for c in columns if self.find(c) == wanted]
            if place in found:
                names = [name for name in found[place] if name in names]
            if not names:
                return None
            found[place] = names
        return found


def infer_key(root: PlanNode, catalog: Catalog, reads: Mapping[str, set[str]]) -> KeyColumns | None:
    """Find the key with the most columns, or None if the query cannot be split."""
    if _is_stateless(root):
        return _stateless_key(root, catalog, reads)
    found = [
        {p: names[0] for p, names in carried.items()} for carried in _usable_classes(root, catalog)
    ]
    found = [names for names in found if _hash_compatible(catalog, names)]
    if not found:
        return None
    streams = [place for place in found[0] if isinstance(place, str)]
    return {s: tuple(names[s] for names in found) for s in streams}


def check_key(
    root: PlanNode, catalog: Catalog, key: KeyColumns, reads: Mapping[str, set[str]]
) -> KeyColumns:
    """Refuse a key that would part rows which belong together."""
    for stream in _streams(root):
        if not key.get(stream):
            raise InputError(f"the key names no column of stream {stream!r}; give one for each")
        known = catalog.streams[stream].schema.names
        for column in key[stream]:
            if column not in known:
                raise InputError(
                    f"the key column {column!r} is not in {stream!r}, which has {', '.join(known)}"
                )
    if _is_stateless(root):
        return key
    if len({len(columns) for columns in key.values()}) > 1:
        raise InputError(f"the key has different numbers of columns: {dict(key)}")
    for at in range(len(next(iter(key.values())))):
        chosen = {stream: columns[at] for stream, columns in key.items()}
        if _class_of(root, catalog, chosen) is None:
            names = " and ".join(f"{s}.{c}" for s, c in chosen.items())
            best = infer_key(root, catalog, reads)
            instead = f"split it by {dict(best)}" if best else "leave the key out (one worker)"
            raise InputError(
                f"{names} cannot be the key: rows that differ in it are joined or grouped "
                f"together; {instead}"
            )
        if not _hash_compatible(catalog, chosen):
            raise InputError(
                "the key's columns are arrays or maps, or of different types; cast them before"
            )
    return key


def store_keys(
    root: PlanNode, catalog: Catalog, key: KeyColumns | None
) -> Mapping[tuple[int, str], tuple[str, ...]]:
    """Say by which of its columns each kept relation is split: (node, alias) -> columns.

    A Group has the alias "", the subscriptions of a template are (-1, "").
    """
    if key is None or _is_stateless(root):
        return {}
    made: dict[tuple[int, str], tuple[str, ...]] = {}
    for at in range(len(next(iter(key.values())))):
        carried = _class_of(root, catalog, {stream: columns[at] for stream, columns in key.items()})
        for place, names in (carried or {}).items():
            if not isinstance(place, str):
                made[place] = (*made.get(place, ()), names[0])
    return made


def normalize_key(key: object, streams: tuple[str, ...]) -> KeyColumns:
    """Read a key given as a name, names, or a mapping from stream to names."""
    if isinstance(key, Mapping):
        extra = sorted(set(key) - set(streams))
        if extra:
            raise InputError(f"the key names {extra[0]!r}, which the query does not read")
        return {str(s): _column_names(columns) for s, columns in key.items()}
    return {stream: _column_names(key) for stream in streams}


def _usable_classes(root: PlanNode, catalog: Catalog) -> Iterator[Mapping[SplitPoint, list[str]]]:
    classes = ColumnClasses()
    classes.add_node(root, "", catalog)
    for each in dict.fromkeys(classes.find(c) for c in list(classes.parent)):
        carried = classes.columns_by_split_point(each)
        if carried is not None:
            yield carried


def _class_of(
    root: PlanNode, catalog: Catalog, chosen: Mapping[str, str]
) -> Mapping[SplitPoint, list[str]] | None:
    """Find the class that the chosen columns of all streams belong to."""
    for carried in _usable_classes(root, catalog):
        if all(column in carried[stream] for stream, column in chosen.items()):
            return carried
    return None


def _is_stateless(root: PlanNode) -> bool:
    """Tell a query whose every row is answered by itself."""
    return not any(
        isinstance(n, AggregateNode)
        or (isinstance(n, SelectNode) and (len(n.inputs) > 1 or _joins_subscriptions(n)))
        for n in nodes_bottom_up(root)
    )


def _joins_subscriptions(node: PlanNode) -> bool:
    return isinstance(node, SelectNode) and any(
        r.table == SUBSCRIPTIONS_ALIAS for r in node.references
    )


def _column_names(given: object) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)  # type: ignore[arg-type]
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"a key is a column name or several, got {given!r}")
    return names


def _streams(root: PlanNode) -> list[str]:
    feeds = [i.feed for n in nodes_bottom_up(root) if isinstance(n, SelectNode) for i in n.inputs]
    return list(dict.fromkeys(feed for feed in feeds if isinstance(feed, str)))


def _hash_compatible(
    catalog: Catalog, chosen: Mapping[SplitPoint, str] | Mapping[str, str]
) -> bool:
    """Tell whether equal values in the streams' columns have equal hashes."""
    return hash_compatible(
        *(catalog.streams[s].schema.field(c).type for s, c in chosen.items() if isinstance(s, str))
    )


def _stateless_key(root: PlanNode, catalog: Catalog, reads: Mapping[str, set[str]]) -> KeyColumns:
    """Split a query without state by its time and all plain columns it reads: evenly."""
    found = {}
    for stream in _streams(root):
        known = catalog.streams[stream]
        plain = [f.name for f in known.schema if not pa.types.is_nested(f.type)]
        found[stream] = tuple(c for c in plain if c == known.time or c in reads[stream])
    return found
