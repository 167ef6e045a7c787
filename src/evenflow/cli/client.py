"""HTTP client of a running service."""

import json
import os
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

import typer

from evenflow.cli.output import print_error
from evenflow.errors import InputError

EXIT_UNREACHABLE = 4
_TIMEOUT_SECONDS = 30


class ServiceClient:
    """Sends JSON requests to a service; the token comes from EVENFLOW_TOKEN."""

    def __init__(self, url: str) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise InputError(f"--url must start with http:// or https://, got {url!r}")
        self.url = url.rstrip("/")

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
        joined = "/".join(quote(str(part), safe="") for part in path)
        headers = {"X-Evenflow": "1", "Accept": "application/json"}
        token = os.environ.get("EVENFLOW_TOKEN")
        if token:
            headers["Authorization"] = f"Bearer {token}"
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body, default=str).encode()
        address = f"{self.url}/api/{joined}" + (f"?{parameters}" if parameters else "")
        request = Request(address, data, headers, method=method)  # noqa: S310 - checked above
        try:
            with urlopen(request, timeout=_TIMEOUT_SECONDS) as reply:  # noqa: S310 - checked above
                return json.load(reply)
        except HTTPError as error:
            raise self._to_exception(error) from None
        except (URLError, TimeoutError, ConnectionError, ValueError) as error:
            reason = getattr(error, "reason", error)
            print_error(f"cannot reach a service at {self.url} ({reason}); start it or set --url")
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
