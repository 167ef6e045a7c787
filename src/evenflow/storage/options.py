"""Options of object storage: where the server is, how to sign in, how much to cache locally."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenflow.errors import InputError

DEFAULT_CACHE_BYTES = 10 << 30
CLIENT_SETTINGS = frozenset({"allow_http", "allow_invalid_certificates", "proxy_url", "timeout"})
_ADDRESS_SETTINGS = ("endpoint", "region", "allow_http")


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Options of a remote checkpoint; they travel with the tasks to Spark's Python processes.

    settings      name and value, as obstore names them: endpoint, region, access_key_id, ...
    cache_bytes   most bytes of state on the local disk of each machine; 0: no cache
    cache_folder  where; empty: below the system's folder for temporary files
    """

    settings: tuple[tuple[str, str], ...] = ()
    cache_bytes: int = DEFAULT_CACHE_BYTES
    cache_folder: str = ""

    def __repr__(self) -> str:
        """Show names only: values may be secrets."""
        return f"StorageOptions({', '.join(name for name, _ in self.settings)})"

    @property
    def client(self) -> dict[str, str]:
        """The settings of the connection."""
        return {name: value for name, value in self.settings if name in CLIENT_SETTINGS}

    @property
    def service(self) -> dict[str, str]:
        """The settings of the service: its address and credentials."""
        return {name: value for name, value in self.settings if name not in CLIENT_SETTINGS}


def storage_options(given: Mapping[str, Any] | StorageOptions | None) -> StorageOptions:
    """Return options from a mapping: endpoint, region, allow_http, options, cache, cache_folder.

    >>> storage_options({"endpoint": "http://127.0.0.1:9000", "allow_http": True}).settings
    (('allow_http', 'true'), ('endpoint', 'http://127.0.0.1:9000'))
    """
    if given is None or isinstance(given, StorageOptions):
        return given or StorageOptions()
    known = {*_ADDRESS_SETTINGS, "options", "cache", "cache_folder"}
    if unknown := given.keys() - known:
        raise InputError(
            f"unknown storage option {min(unknown)!r}; known are {', '.join(sorted(known))}"
        )
    settings = {**given.get("options", {}), **{n: given.get(n) for n in _ADDRESS_SETTINGS}}
    return StorageOptions(
        settings=tuple(
            sorted((name, _as_text(value)) for name, value in settings.items() if value is not None)
        ),
        cache_bytes=parse_size(given.get("cache", DEFAULT_CACHE_BYTES), "storage cache"),
        cache_folder=str(given.get("cache_folder") or ""),
    )


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


def parse_size(value: int | str, what: str) -> int:
    """Return a number of bytes.

    >>> parse_size("10 GB", "cache"), parse_size(4096, "cache")
    (10000000000, 4096)
    """
    text = str(value).strip().lower()
    digits = text.rstrip("kmgtb ")
    unit = text[len(digits) :].strip()
    try:
        return int(float(digits) * _UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        raise InputError(f"{what} must be a size such as '10 GB', got {value!r}") from None
