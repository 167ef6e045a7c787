"""The audit log: one JSON line per command, and per wrong token."""

import json
import logging
import os
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from evenflow.display import printable
from evenflow.errors import MAX_ERROR_CHARACTERS, InputError

_log = logging.getLogger(__name__)
_MAX_BYTES, _OLD_FILES = 10_000_000, 4


class AuditLog:
    """Writes to a file of its own, or to the logger `evenflow.service.audit` without one.

    Any thread. A full file is renamed to `NAME.1`; the oldest of five is deleted.
    """

    def __init__(self, path: Path | None = None, *, max_bytes: int = _MAX_BYTES) -> None:
        self._handler: RotatingFileHandler | None = None
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handler = _PrivateFileHandler(
                path, maxBytes=max_bytes, backupCount=_OLD_FILES, encoding="utf-8"
            )
        except OSError as error:
            raise InputError(f"cannot write the audit log {path}: {error.strerror}") from None

    def add(self, **fields: Any) -> None:
        """Write one line; texts are bounded, and None is left out."""
        shown = {
            name: printable(value, MAX_ERROR_CHARACTERS) if isinstance(value, str) else value
            for name, value in fields.items()
            if value is not None
        }
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"at": at, **shown})
        if self._handler is None:
            _log.info("%s", line)
        else:
            self._handler.handle(logging.makeLogRecord({"msg": line, "name": __name__}))

    def close(self) -> None:
        """Close the file."""
        if self._handler is not None:
            self._handler.close()


class _PrivateFileHandler(RotatingFileHandler):
    """Its files can be read by their owner only."""

    def _open(self) -> Any:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return os.fdopen(descriptor, "a", encoding=self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of logging
        _log.error("the audit log %s cannot be written: %s", self.baseFilename, record.getMessage())
