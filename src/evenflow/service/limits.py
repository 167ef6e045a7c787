"""How much the service grants to one client, and to all together."""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, TypeVar

_MAX_CLIENTS = 4096  # remembered at once; the least recently seen is forgotten
_FREE_FAILURES, _MAX_WAIT_SECONDS, _FORGET_SECONDS = 5, 60.0, 600.0
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one listener.

    connections              open at once
    connections_per_client   of those, from one address
    event_clients            connected to `/api/events`
    head_seconds             from the connection, or the last response, to a complete request head
    body_seconds             from the head to the end of the body
    reads, writes            requests a second of one client, and at once
    """

    connections: int = 1024
    connections_per_client: int = 640
    event_clients: int = 512
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    reads: tuple[float, float] = (100.0, 600.0)
    writes: tuple[float, float] = (10.0, 30.0)


@dataclass(slots=True)
class RateLimiter:
    """Token bucket: `rate_per_second` requests a second, up to `burst` at once."""

    rate_per_second: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _available: float = field(init=False)
    _updated_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._available, self._updated_at = self.burst, self.clock()

    def try_acquire(self) -> bool:
        """Count one request; False if the limit is reached."""
        now = self.clock()
        self._available = min(
            self.burst, self._available + (now - self._updated_at) * self.rate_per_second
        )
        self._updated_at = now
        if self._available < 1:
            return False
        self._available -= 1
        return True


class PerClient(Generic[Item]):
    """One item per client, created when it is first seen. Used on the event loop only."""

    def __init__(self, create: Callable[[], Item]) -> None:
        self._create = create
        self._items: OrderedDict[str, Item] = OrderedDict()

    def __getitem__(self, client: str) -> Item:
        item = self._items.get(client)
        if item is None:
            item = self._items[client] = self._create()
            if len(self._items) > _MAX_CLIENTS:
                self._items.popitem(last=False)
        self._items.move_to_end(client)
        return item

    def __len__(self) -> int:
        return len(self._items)


@dataclass(slots=True)
class FailedTokens:
    """Wrong tokens of one client: after five, each further one doubles the time it must wait."""

    clock: Callable[[], float] = time.monotonic
    _failures: int = 0
    _last_at: float = 0.0

    def add(self) -> None:
        """Count a wrong token."""
        if self.clock() - self._last_at > _FORGET_SECONDS:
            self._failures = 0
        self._failures += 1
        self._last_at = self.clock()

    def wait_seconds(self) -> float:
        """Return how long this client has to wait before its next token is looked at."""
        if self._failures < _FREE_FAILURES:
            return 0.0
        wait = min(2.0 ** (self._failures - _FREE_FAILURES), _MAX_WAIT_SECONDS)
        return max(0.0, self._last_at + wait - self.clock())


@lru_cache(maxsize=_MAX_CLIENTS)
def client_name(address: str) -> str:
    """Return what counts as one client: an IPv4 address, or the /64 network of an IPv6 address.

    >>> client_name("10.1.2.3"), client_name("2001:db8::1"), client_name("::ffff:10.1.2.3")
    ('10.1.2.3', '2001:db8::/64', '10.1.2.3')
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    if parsed.is_loopback:
        return str(parsed)
    return str(ipaddress.ip_network((int(parsed), 64), strict=False))
