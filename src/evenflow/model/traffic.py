"""What streams cost to ship: as they are, and if whole queries had been placed in turn."""

from collections.abc import Mapping

from evenflow.model.snapshot import Snapshot


def stream_bytes(snapshot: Snapshot) -> dict[str, float]:
    """Return the bytes of one copy of each stream in a batch, however often it was shipped.

    A worker with a whole query over a stream gets all of it. Without any, workers get the shares
    of keyed queries, which are one copy; if keyed queries split it differently, somewhat more.
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
    """Return what the batch would have shipped with its whole queries dealt out in turn."""
    return sum(round_robin_stream_bytes(snapshot).values())


def round_robin_stream_bytes(snapshot: Snapshot) -> dict[str, float]:
    """Return what it would have shipped of each stream.

    The same streams and queries on the same active workers, queries in the order in which they
    came. A worker that has no whole query over a stream still gets its share of keyed ones; for
    workers whose share is not known, since they now have all of the stream, an even one.
    """
    active = snapshot.plan.active
    asked = [name for name in snapshot.queries if name in snapshot.plan.placement]
    dealt = {name: active[at % len(active)] for at, name in enumerate(asked)}
    before, after = (
        _workers_by_stream(snapshot, snapshot.plan.placement),
        _workers_by_stream(snapshot, dealt),
    )
    keyed = {
        stream
        for name, query in snapshot.queries.items()
        if name in snapshot.plan.tables
        for stream in query.streams
    }
    found = {}
    for stream, size in stream_bytes(snapshot).items():
        whole = after.get(stream, set())
        found[stream] = size * len(whole)
        if stream in keyed:
            shares = snapshot.shipped_bytes[stream]
            unknown = before.get(stream, set())
            found[stream] += sum(
                size / len(active) if worker in unknown else float(shares[worker])
                for worker in active
                if worker not in whole
            )
    return found


def _workers_by_stream(snapshot: Snapshot, placement: Mapping[str, int]) -> dict[str, set[int]]:
    """Return the workers that have a whole query over each stream."""
    found: dict[str, set[int]] = {}
    for name, query in snapshot.queries.items():
        if name in placement:
            for stream in query.streams:
                found.setdefault(stream, set()).add(placement[name])
    return found
