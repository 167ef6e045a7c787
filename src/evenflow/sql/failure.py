"""What a running query can do wrong."""


class QueryFailed(Exception):  # noqa: N818 - it is the query that failed, not the program
    """A query broke a limit or met a row it cannot compute; `reason` is time, memory or error.

    The task that raised it is in no defined state: drop it and quarantine the query.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return self.message
