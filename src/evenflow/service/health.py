"""Health on a port of its own: answers while the other port is busy or under attack."""

from starlette.applications import Starlette

from evenflow.service import routes
from evenflow.service.app import ERROR_HANDLERS, endpoint_routes
from evenflow.service.audit import AuditLog
from evenflow.service.events import EventHub
from evenflow.service.limits import Limits
from evenflow.service.watcher import Watcher

HEALTH_LIMITS = Limits(
    connections=64, connections_per_client=64, head_seconds=5.0, body_seconds=5.0
)


def health_application(watcher: Watcher, hub: EventHub) -> Starlette:
    """Return an application with `/healthz` and `/readyz` only, for everybody."""
    endpoints = routes.health_endpoints(watcher, hub)
    return Starlette(
        routes=endpoint_routes(endpoints, AuditLog()), exception_handlers=ERROR_HANDLERS
    )
