"""By which columns a query's rows can be split over workers without changing an answer.

Columns that a query makes equal, or passes on unchanged, form a class. A class is a key if rows
that ever meet agree on it: every input of every join has a column of the class, and every GROUP BY
has one among its columns. Then rows that agree on the class go to one worker, and no row ever
misses a partner or a group.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.sql.catalog import Catalog
from evenflow.sql.expressions import SUBSCRIPTIONS
from evenflow.sql.plan import Block, Group, Node, Union, walk
from evenflow.sql.types import hash_alike

Column = tuple[int, str, str]  # node, alias ("" for its result), name
GROUPS = "."  # the alias under which a Group's own columns are known


@dataclass
class Classes:
    """Columns of all nodes, grouped by equality (union-find)."""

    parent: dict[Column, Column] = field(default_factory=dict)

    def find(self, column: Column) -> Column:
        """Return the representative of a column's class."""
        while (above := self.parent.setdefault(column, column)) != column:
            column = above
        return column

    def join(self, one: Column, other: Column) -> None:
        """Make two columns equal."""
        a, b = sorted((self.find(one), self.find(other)))
        self.parent[b] = a

    @classmethod
    def of(cls, root: Node, catalog: Catalog) -> "Classes":
        """Find the classes of a tree."""
        made = cls()
        for node in walk(root):
            if isinstance(node, Block):
                made._block(node, catalog)
            elif isinstance(node, Group):
                for name, key in node.lineage.items():
                    made.join((node.id, "", name), (node.id, GROUPS, key))
                for feed in node.feeds:
                    for key in node.keys:
                        made.join((node.id, GROUPS, key), (feed.id, "", key))
            else:
                made._union(node)
        return made

    def _block(self, node: Block, catalog: Catalog) -> None:
        for name, (alias, column) in node.lineage.items():
            self.join((node.id, "", name), (node.id, alias, column))
        for (left, a), (right, b) in node.equal:
            self.join((node.id, left, a), (node.id, right, b))
        for item in node.inputs:
            if not isinstance(item.feed, str):
                for entry in item.feed.relation.fields:
                    self.join((node.id, item.alias, entry.name), (item.feed.id, "", entry.name))
            else:
                for name in catalog.streams[item.feed].schema.names:
                    self.find((node.id, item.alias, name))

    def _union(self, node: Union) -> None:
        for at, entry in enumerate(node.relation.fields):
            for part in node.parts:
                self.join((node.id, "", entry.name), (part.id, "", part.relation.fields[at].name))


def infer(root: Node, catalog: Catalog) -> Mapping[str, tuple[str, ...]] | None:
    """Find the key with the most columns, or None if the query cannot be split."""
    if not is_stateful(root) and not has_subscriptions(root):
        return _any_columns(root, catalog)
    classes = Classes.of(root, catalog)
    usable = [
        c for c in sorted({classes.find(c) for c in classes.parent}) if _fits(c, classes, root)
    ]
    per_stream: list[dict[str, str]] = []
    for each in usable:
        columns = _columns(each, classes, root, catalog)
        if columns is not None:
            per_stream.append(columns)
    if not per_stream:
        return None
    return {s: tuple(columns[s] for columns in per_stream) for s in per_stream[0]}


def check(
    root: Node, catalog: Catalog, key: Mapping[str, tuple[str, ...]]
) -> Mapping[str, tuple[str, ...]]:
    """Refuse a key that would part rows which belong together."""
    sources = _sources(root)
    for stream in sorted({s for _, _, s in sources}):
        if not key.get(stream):
            raise InputError(f"the key names no column of stream {stream!r}; give one for each")
        for column in key[stream]:
            if column not in catalog.streams[stream].schema.names:
                known = ", ".join(catalog.streams[stream].schema.names)
                raise InputError(
                    f"the key column {column!r} is not in {stream!r}, which has {known}"
                )
    if not is_stateful(root) and not has_subscriptions(root):
        return key
    if len({len(columns) for columns in key.values()}) > 1:
        raise InputError(f"the key has different numbers of columns: {dict(key)}")
    classes = Classes.of(root, catalog)
    for at in range(len(next(iter(key.values())))):
        found = {classes.find((node, alias, key[s][at])) for node, alias, s in sources}
        names = " and ".join(dict.fromkeys(f"{s}.{columns[at]}" for s, columns in key.items()))
        if len(found) > 1 or not _fits(found.pop(), classes, root):
            best = infer(root, catalog)
            instead = f"split it by {dict(best)}" if best else "leave the key out (one worker)"
            raise InputError(
                f"{names} cannot be the key: rows that differ in it are joined or grouped "
                f"together; {instead}"
            )
        if not hash_alike(*(catalog.streams[s].schema.field(key[s][at]).type for s in key)):
            raise InputError(f"{names} have different types, so equal keys would hash apart; cast")
    return key


def normal(key: object, streams: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    """Read a key given as a name, names, or a mapping from stream to names."""
    if isinstance(key, Mapping):
        extra = sorted(set(key) - set(streams))
        if extra:
            raise InputError(f"the key names {extra[0]!r}, which the query does not read")
        return {str(s): _names(columns) for s, columns in key.items()}
    return {stream: _names(key) for stream in streams}


def store_keys(
    root: Node, catalog: Catalog, key: Mapping[str, tuple[str, ...]] | None
) -> Mapping[tuple[int, str], tuple[str, ...]]:
    """Say by which of its columns each kept relation is split: (node, alias) -> columns.

    A Group has the alias "", the subscriptions of a template are (-1, "").
    """
    if key is None:
        return {}
    classes = Classes.of(root, catalog)
    at, alias, stream = _sources(root)[0]
    wanted = [classes.find((at, alias, column)) for column in key[stream]]
    made: dict[tuple[int, str], tuple[str, ...]] = {}

    def pick(node: int, alias: str, names: Iterable[str]) -> tuple[str, ...]:
        known = {classes.find((node, alias, name)): name for name in sorted(names, reverse=True)}
        return tuple(known[each] for each in wanted)

    for node in walk(root):
        if isinstance(node, Group):
            made[node.id, ""] = pick(node.id, GROUPS, node.keys)
        elif isinstance(node, Block):
            if _subscribed(node):
                names = [n for i, a, n in classes.parent if (i, a) == (node.id, SUBSCRIPTIONS)]
                made[-1, ""] = pick(node.id, SUBSCRIPTIONS, names)
            for item in node.inputs:
                if item.buffer is not None:
                    names = [name for name, _ in item.buffer.select]
                    made[node.id, item.alias] = pick(node.id, item.alias, names)
    return made


def is_stateful(root: Node) -> bool:
    """Tell whether answers depend on earlier rows."""
    return any(
        isinstance(n, Group) or (isinstance(n, Block) and len(n.inputs) > 1) for n in walk(root)
    )


def has_subscriptions(root: Node) -> bool:
    """Tell a template, whose rows must meet their subscriptions."""
    return any(_subscribed(node) for node in walk(root))


def _subscribed(node: Node) -> bool:
    return isinstance(node, Block) and any(r.table == SUBSCRIPTIONS for r in node.references)


def _names(given: object) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)  # type: ignore[arg-type]
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"a key is a column name or several, got {given!r}")
    return names


def _sources(root: Node) -> list[tuple[int, str, str]]:
    """List where streams enter: (node, alias, stream)."""
    return [
        (node.id, item.alias, item.feed)
        for node in walk(root)
        if isinstance(node, Block)
        for item in node.inputs
        if isinstance(item.feed, str)
    ]


def _fits(wanted: Column, classes: Classes, root: Node) -> bool:
    """Tell whether every join and every group agrees on the class."""
    members = {c for c in classes.parent if classes.find(c) == wanted}
    for node in walk(root):
        if isinstance(node, Group):
            if not any((node.id, GROUPS, key) in members for key in node.keys):
                return False
        elif isinstance(node, Block):
            for item in node.inputs:
                if not any(i == node.id and a == item.alias for i, a, _ in members):
                    return False
            if _subscribed(node) and not any(
                i == node.id and a == SUBSCRIPTIONS for i, a, _ in members
            ):
                return False
    return True


def _columns(
    wanted: Column, classes: Classes, root: Node, catalog: Catalog
) -> dict[str, str] | None:
    """Name the class's column in each stream; None if a stream enters under two of them."""
    found: dict[str, str] = {}
    for node, alias, stream in _sources(root):
        names = [
            n
            for n in catalog.streams[stream].schema.names
            if classes.find((node, alias, n)) == wanted
        ]
        if stream in found and found[stream] in names:
            continue
        if not names or stream in found:
            return None
        found[stream] = names[0]
    kinds = (catalog.streams[s].schema.field(c).type for s, c in found.items())
    return found if hash_alike(*kinds) else None


def _any_columns(root: Node, catalog: Catalog) -> Mapping[str, tuple[str, ...]]:
    """Split a query without state by all plain columns of its streams, which spreads it evenly."""
    found = {}
    for _, _, stream in _sources(root):
        fields = catalog.streams[stream].schema
        found[stream] = tuple(f.name for f in fields if not pa.types.is_nested(f.type))
    return found
