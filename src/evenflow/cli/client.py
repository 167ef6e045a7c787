"""HTTP client of a running service."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

import typer

from evenflow.cli.output import print_error
from evenflow.errors import InputError

EXIT_UNREACHABLE = 4
_TIMEOUT_SECONDS, _PROBE_SECONDS = 30, 5


class ServiceClient:
    """Sends JSON requests to a service; the token comes from EVENFLOW_TOKEN."""

    def __init__(self, url: str) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise InputError(f"--url must start with http:// or https://, got {url!r}")
        self.url = url.rstrip("/")

    def serves(self, checkpoint: str) -> bool:
        """Tell whether the service answers and is that of a checkpoint."""
        request = Request(f"{self.url}/api/run", headers=self._headers())  # noqa: S310 - checked
        try:
            with urlopen(request, timeout=_PROBE_SECONDS) as reply:  # noqa: S310 - checked above
                return bool(json.load(reply)["checkpoint"] == checkpoint)
        except HTTPError as error:
            return error.code in (401, 429)  # the next request says so
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def answers(self) -> bool:
        """Tell whether anything listens at the address."""
        request = Request(f"{self.url}/healthz", headers=self._headers())  # noqa: S310 - checked
        try:
            with urlopen(request, timeout=_PROBE_SECONDS):  # noqa: S310 - checked above
                return True
        except HTTPError:
            return True
        except (OSError, HTTPException):
            return False

    def follow(self, *path: object, **parameters: object) -> Iterator[Any]:
        """Yield the data of server-sent events until the service ends the stream."""
        query = {name: value for name, value in parameters.items() if value is not None}
        address = f"{self._address(path)}?{urlencode(query)}"
        headers = {**self._headers(), "Accept": "text/event-stream"}
        with self._open(Request(address, headers=headers), None) as reply:  # noqa: S310 - checked
            event, data = "message", ""
            for line in (raw.decode().rstrip("\r\n") for raw in reply):
                name, _, value = line.partition(": ")
                if name == "event":
                    event = value
                elif name == "data":
                    data = value
                elif not line and event == "end":
                    return
                elif not line and data:
                    yield json.loads(data)
                    event, data = "message", ""

    def get(self, *path: object, **parameters: object) -> Any:
        """Send a GET request; parameters that are None are left out."""
        query = {name: value for name, value in parameters.items() if value is not None}
        return self._request("GET", path, None, urlencode(query))

    def post(self, *path: object, body: Any = None) -> Any:
        """Send a POST request."""
        return self._request("POST", path, body or {})

    def delete(self, *path: object, body: Any = None) -> Any:
        """Send a DELETE request."""
        return self._request("DELETE", path, body)

    def _request(
        self, method: str, path: tuple[object, ...], body: Any, parameters: str = ""
    ) -> Any:
        headers, data = self._headers(), None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body, default=str).encode()
        address = self._address(path) + (f"?{parameters}" if parameters else "")
        request = Request(address, data, headers, method=method)  # noqa: S310 - checked above
        with self._open(request, _TIMEOUT_SECONDS) as reply:
            return json.load(reply)

    def _address(self, path: tuple[object, ...]) -> str:
        return f"{self.url}/api/" + "/".join(quote(str(part), safe="") for part in path)

    def _headers(self) -> dict[str, str]:
        headers = {"X-Evenflow": "1", "Accept": "application/json"}
        token = os.environ.get("EVENFLOW_TOKEN")
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return headers

    @contextmanager
    def _open(self, request: Request, timeout: float | None) -> Iterator[Any]:
        """Send a request; an error of the service or of the network ends the command."""
        try:
            with urlopen(request, timeout=timeout) as reply:  # noqa: S310 - checked above
                yield reply
        except HTTPError as error:
            raise self._to_exception(error) from None
        except (URLError, TimeoutError, ConnectionError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError) and timeout is not None:
                print_error(
                    f"the run at {self.url} did not answer within {timeout} s; it may still do what"
                    " was asked, once the machine has time: `evenflow ps` shows it"
                )
                raise typer.Exit(EXIT_UNREACHABLE) from None
            reason = getattr(reason, "strerror", None) or reason
            print_error(
                f"cannot reach a service at {self.url} ({reason}); start a run with `evenflow run`,"
                " or name another one with --run or --url: `evenflow list` shows them"
            )
            raise typer.Exit(EXIT_UNREACHABLE) from None

    def _to_exception(self, error: HTTPError) -> Exception:
        try:
            message = str(json.load(error)["error"])
        except (ValueError, KeyError, TypeError):
            message = f"{self.url} returned HTTP {error.code}; is it an Evenflow service?"
        if error.code in (401, 502, 503, 504):
            print_error(f"{message} (set EVENFLOW_TOKEN)" if error.code == 401 else message)
            return typer.Exit(EXIT_UNREACHABLE)
        return InputError(message)
