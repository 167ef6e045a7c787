"""Reading ahead gives the same items, errors included, and stays within its bound."""

import threading
from collections.abc import Iterator

import pytest

from evenflow.spark.worker.prefetch import prefetch


def test_an_error_comes_after_what_was_read_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise ValueError("no more")

    stream = prefetch(items())
    assert [next(stream) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="no more"):
        next(stream)


def test_it_is_only_so_far_ahead_and_stops_when_its_reader_does() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    stream = prefetch(items(), most=4)
    assert next(stream) == 0
    stream.close()  # type: ignore[attr-defined]
    for thread in threading.enumerate():
        if thread.name == "evenflow-prefetch":
            thread.join(30)
            assert not thread.is_alive()
    assert len(taken) <= 7
