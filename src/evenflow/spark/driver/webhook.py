"""A webhook: alerts as JSON by POST, from a thread of its own."""

import json
import logging
import queue
import threading
from dataclasses import asdict
from http.client import HTTPException
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from evenflow.model.alert import Alert

MAX_WAITING = 100
TIMEOUT_SECONDS = 5.0
RETRY_SECONDS = (1.0, 5.0, 25.0)
CLOSE_SECONDS = 5.0
_log = logging.getLogger(__name__)


class Webhook:
    """Sends alerts to one address.

    Driver process; its thread lives from the first alert to `close`. `send` never waits: if the
    address does not answer, alerts are tried again a few times, and dropped with a line in the log.
    """

    def __init__(self, url: str, checkpoint: str) -> None:
        self._url, self._checkpoint = url, checkpoint
        self._host = urlsplit(url).hostname  # the rest of the address may be a secret
        self._queue: queue.Queue[Alert | None] = queue.Queue(MAX_WAITING)
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def send(self, alert: Alert) -> None:
        """Have an alert sent; return at once."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._send_all, name="evenflow-webhook", daemon=True
            )
            self._thread.start()
        try:
            self._queue.put_nowait(alert)
        except queue.Full:
            _log.warning("alert not sent to %s, too many wait: %s", self._host, alert.message)

    def close(self) -> None:
        """Send what is left, within a few seconds and without trying again."""
        if self._thread is None:
            return
        self._closing.set()
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(CLOSE_SECONDS)

    def _send_all(self) -> None:
        while (alert := self._queue.get()) is not None:
            error = self._post(alert)
            for seconds in RETRY_SECONDS:
                if error is None or self._closing.wait(seconds):
                    break
                error = self._post(alert)
            if error is not None:
                _log.warning("alert not sent to %s (%s): %s", self._host, error, alert.message)

    def _post(self, alert: Alert) -> str | None:
        """Send one alert; return why it failed."""
        body = {
            "text": f"{alert.state}: {alert.message}",
            "state": alert.state,
            "checkpoint": self._checkpoint,
            **asdict(alert),
        }
        headers = {"Content-Type": "application/json"}
        request = Request(self._url, json.dumps(body).encode(), headers)  # noqa: S310 - checked
        try:
            with urlopen(request, timeout=TIMEOUT_SECONDS):  # noqa: S310 - checked by AlertRules
                return None
        except (OSError, HTTPException, ValueError) as error:
            return str(error) or type(error).__name__
