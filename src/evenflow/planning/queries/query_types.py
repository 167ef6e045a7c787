"""Query types (queries with the same sources), and groups of interchangeable queries."""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.model.subscriptions import Subscriptions


def readers_by_source(
    starts: Indices, sources: Indices | Workers, count: int
) -> tuple[Indices, Indices]:
    """Return the inverted index: the queries (or groups) that read each of `count` sources.

    As where the readers of each source begin, and the readers.
    """
    reader = np.repeat(np.arange(len(starts) - 1, dtype=np.int64), np.diff(starts))
    degrees = np.bincount(sources, minlength=count)
    first = np.concatenate(([0], np.cumsum(degrees))).astype(np.int64)
    return first, reader[np.argsort(sources, kind="stable")]


def query_types(subscriptions: Subscriptions) -> Indices:
    """Return the type of each query, numbered in order of first appearance.

    >>> query_types(Subscriptions.from_source_sets([[0, 1], [2], [1, 0]])).tolist()
    [0, 1, 0]
    """
    return _query_types(subscriptions.starts, subscriptions.sources)


def query_types_plain(subscriptions: Subscriptions) -> list[int]:
    """Number the distinct source sets with a dictionary: the kernel's oracle."""
    seen: dict[tuple[int, ...], int] = {}
    sets = [tuple(subscriptions.sources_of_query(q).tolist()) for q in range(len(subscriptions))]
    return [seen.setdefault(sources, len(seen)) for sources in sets]


@kernel
def _query_types(starts: Indices, sources: Workers) -> Indices:
    """Number source sets by an open hash table; equal hashes are compared in full."""
    count = len(starts) - 1
    size = 16
    while size < 2 * count:
        size *= 2
    table = np.full(size, -1, dtype=np.int64)
    types = np.empty(count, dtype=np.int64)
    known = 0
    for query in range(count):
        begin, end = starts[query], starts[query + 1]
        mixed = np.uint64(end - begin)
        for at in range(begin, end):
            mixed = (mixed ^ np.uint64(sources[at])) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        place = np.int64(mixed & np.uint64(size - 1))
        while table[place] >= 0:
            other = table[place]
            same = starts[other + 1] - starts[other] == end - begin
            step = 0
            while same and step < end - begin:
                same = sources[starts[other] + step] == sources[begin + step]
                step += 1
            if same:
                break
            place = (place + 1) & (size - 1)
        if table[place] < 0:
            table[place] = query
            types[query] = known
            known += 1
        else:
            types[query] = types[table[place]]
    return types


class QueryGroups(NamedTuple):
    """Queries that are the same to a planner: same sources, same load, same label.

    source_starts, sources  the source set of each group
    load             load of one query of the group
    size             queries in the group
    label            what else the queries share (their worker), or -1
    member_starts, members  the queries of each group, by arrival
    """

    source_starts: Indices
    sources: Indices
    load: Floats
    size: Indices
    label: Workers
    member_starts: Indices
    members: Indices


def group_queries(
    subscriptions: Subscriptions,
    queries: Indices,
    label: Workers | None = None,
    most_load: float = np.inf,
) -> QueryGroups:
    """Group the given queries, in order of first appearance, in pieces of at most `most_load`.

    A piece always holds at least one query.
    """
    types = query_types(subscriptions)[queries]
    loads = subscriptions.loads[queries]
    labels = np.full(len(queries), -1, dtype=np.int32) if label is None else label[queries]
    order = np.lexsort((queries, labels, loads, types))
    new = np.ones(len(queries), dtype=np.bool_)
    for values in (types, loads, labels):
        sorted_values = values[order]
        differs = sorted_values[1:] != sorted_values[:-1]
        new[1:] = differs if values is types else new[1:] | differs
    run = np.cumsum(new) - 1
    within = np.arange(len(queries)) - np.flatnonzero(new)[run] if len(queries) else run
    if np.isfinite(most_load):
        per_piece = np.maximum(np.floor(most_load / loads[order]), 1).astype(np.int64)
        new |= within % per_piece == 0
    begins = np.flatnonzero(new)
    sizes = np.diff(np.append(begins, len(queries))).astype(np.int64)
    ranked = np.argsort(queries[order[begins]], kind="stable")
    first = np.concatenate(([0], np.cumsum(sizes[ranked]))).astype(np.int64)
    within = np.arange(len(queries)) - np.repeat(first[:-1], sizes[ranked])
    members = queries[order[np.repeat(begins[ranked], sizes[ranked]) + within]]
    heads = members[first[:-1]]
    sets = subscriptions.select_queries(heads)
    return QueryGroups(
        source_starts=sets.starts,
        sources=sets.sources.astype(np.int64),
        load=sets.loads,
        size=sizes[ranked],
        label=labels[order[begins[ranked]]],
        member_starts=first,
        members=members,
    )
