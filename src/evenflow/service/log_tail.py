"""The last lines that Evenflow logged in this process, for the page."""

import logging
from collections import deque

from evenflow.display import printable
from evenflow.errors import MAX_ERROR_CHARACTERS
from evenflow.service.api_model import ApiModel

_MAX_LINES = 500
_LOGGER = "evenflow"


class LogLine(ApiModel):
    """One line of the log; `at` in seconds since the epoch."""

    at: float
    level: str
    message: str


class LogTail(logging.Handler):
    """Keeps the last lines between `open` and `close`; any thread may log or read."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[LogLine] = deque(maxlen=_MAX_LINES)

    def open(self) -> None:
        """Start to listen."""
        logging.getLogger(_LOGGER).addHandler(self)

    def close(self) -> None:
        """Stop to listen."""
        logging.getLogger(_LOGGER).removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line; the text of an exception is left to the log of the driver."""
        try:
            text = printable(record.getMessage(), MAX_ERROR_CHARACTERS)
        except Exception:  # a wrong format must not stop whoever logs
            self.handleError(record)
            return
        self._lines.append(LogLine(at=record.created, level=record.levelname, message=text))

    def lines(self, limit: int) -> list[LogLine]:
        """Return the last lines, newest first."""
        return list(self._lines)[::-1][:limit]
