"""Reading ahead: the next rows are on their way while the last ones are worked on."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import Full, Queue
from typing import TypeVar

T = TypeVar("T")


def prefetch(items: Iterator[T], most: int = 16) -> Iterator[T]:
    """Give the items as they are, read by a thread that is at most so many of them ahead.

    Else what Spark sends waits in a small buffer, and Spark's thread waits with it.

    >>> list(prefetch(iter(range(5)), most=2))
    [0, 1, 2, 3, 4]
    """
    waiting: Queue[tuple[T, ...] | BaseException] = Queue(most)
    left = threading.Event()

    def put(what: tuple[T, ...] | BaseException) -> None:
        while not left.is_set():
            with suppress(Full):
                waiting.put(what, timeout=0.5)
                return

    def read() -> None:
        try:
            for item in items:
                put((item,))
                if left.is_set():
                    return
            put(())  # the end
        except BaseException as error:  # raised where the items are used
            put(error)

    threading.Thread(target=read, name="evenflow-ahead", daemon=True).start()
    try:
        while found := waiting.get():
            if isinstance(found, BaseException):
                raise found
            yield found[0]
    finally:
        left.set()
