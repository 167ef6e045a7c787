"""Prefetch: a thread reads the next rows while the last ones are processed."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import Full, Queue
from typing import TypeVar

T = TypeVar("T")


def prefetch(items: Iterator[T], most: int = 16) -> Iterator[T]:
    """Yield the items, read by a thread that is at most `most` items ahead.

    Without it Spark's thread waits as soon as its small socket buffer is full.

    >>> list(prefetch(iter(range(5)), most=2))
    [0, 1, 2, 3, 4]
    """
    queue: Queue[tuple[T, ...] | BaseException] = Queue(most)
    closed = threading.Event()

    def put(entry: tuple[T, ...] | BaseException) -> None:
        while not closed.is_set():
            with suppress(Full):
                queue.put(entry, timeout=0.5)
                return

    def read() -> None:
        try:
            for item in items:
                put((item,))
                if closed.is_set():
                    return
            put(())  # the end
        except BaseException as error:  # raised again by the consumer
            put(error)

    threading.Thread(target=read, name="evenflow-prefetch", daemon=True).start()
    try:
        while entry := queue.get():
            if isinstance(entry, BaseException):
                raise entry
            yield entry[0]
    finally:
        closed.set()
