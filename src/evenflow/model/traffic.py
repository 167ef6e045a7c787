"""Bytes of streams shipped to workers: as measured, and with whole queries placed round-robin."""

from collections.abc import Mapping

from evenflow.model.snapshot import Snapshot


def stream_bytes(snapshot: Snapshot) -> dict[str, float]:
    """Return the bytes of one copy of each stream in a batch, however often it was shipped.

    A worker with a whole query gets all of a stream. If only keyed queries read it, the workers
    together get one copy, or somewhat more if the queries split it differently.
    """
    whole = _workers_by_stream(snapshot, snapshot.plan.placement)
    return {
        stream: float(
            max(sent[worker] for worker in whole[stream]) if stream in whole else sent.sum()
        )
        for stream, sent in snapshot.shipped_bytes.items()
    }


def total_shipped_bytes(snapshot: Snapshot) -> float:
    """Return the bytes of streams sent to workers in a batch."""
    return float(sum(sent.sum() for sent in snapshot.shipped_bytes.values()))


def round_robin_bytes(snapshot: Snapshot) -> float:
    """Return the bytes a batch would have shipped with its whole queries placed round-robin."""
    return sum(round_robin_stream_bytes(snapshot).values())


def round_robin_stream_bytes(snapshot: Snapshot) -> dict[str, float]:
    """Return the bytes of each stream with whole queries placed round-robin by arrival.

    A worker without a whole query over a stream still gets the rows of its keys. If that amount
    is not known, since the worker now gets the whole stream, an even share is assumed.
    """
    active, plan = snapshot.plan.active, snapshot.plan
    whole_queries = [name for name in snapshot.queries if name in plan.placement]
    placement = {name: active[index % len(active)] for index, name in enumerate(whole_queries)}
    before = _workers_by_stream(snapshot, plan.placement)
    after = _workers_by_stream(snapshot, placement)
    keyed_queries = [query for name, query in snapshot.queries.items() if name in plan.tables]
    keyed = {stream for query in keyed_queries for stream in query.streams}
    shipped = {}
    for stream, size in stream_bytes(snapshot).items():
        whole = after.get(stream, set())
        shipped[stream] = size * len(whole)
        if stream in keyed:
            measured, unknown = snapshot.shipped_bytes[stream], before.get(stream, set())
            shipped[stream] += sum(
                size / len(active) if worker in unknown else float(measured[worker])
                for worker in active
                if worker not in whole
            )
    return shipped


def _workers_by_stream(snapshot: Snapshot, placement: Mapping[str, int]) -> dict[str, set[int]]:
    """Return the workers with a whole query over each stream."""
    workers: dict[str, set[int]] = {}
    for name, query in snapshot.queries.items():
        if name in placement:
            for stream in query.streams:
                workers.setdefault(stream, set()).add(placement[name])
    return workers
