"""The ASGI application: endpoints of the API, the page, errors as JSON."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import as_file, files
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from evenflow.errors import InputError
from evenflow.service import routes
from evenflow.service.events import EventHub, EventsEndpoint
from evenflow.service.guard import AccessPolicy, Guard
from evenflow.service.openapi import Endpoint, openapi_document
from evenflow.service.results import ResultStreams, wants_events
from evenflow.service.run_protocol import RunProtocol
from evenflow.service.watcher import Watcher

_JSON_TYPE = "application/json"
_ANY = TypeAdapter(Any)


def application(
    run: RunProtocol,
    watcher: Watcher,
    hub: EventHub,
    access: AccessPolicy,
    *,
    page: bool = True,
    started: Callable[[], None] | None = None,
) -> Starlette:
    """Return the application; `started` is called on its event loop before the first request."""
    results = ResultStreams(run)
    endpoints = [*routes.read_endpoints(watcher, hub, results), *routes.write_endpoints(run)]
    document = openapi_document(endpoints)

    async def openapi(_: Request) -> Response:
        return JSONResponse(document)

    async def not_found(request: Request) -> Response:
        raise HTTPException(404, f"nothing at {request.url.path}; /openapi.json lists all paths")

    async def metrics(_: Request) -> Response:
        return Response(watcher.metrics.exposition(), media_type="text/plain; version=0.0.4")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if started is not None:
            started()
        yield
        hub.close()

    mounted: list[Route | Mount] = [_route(endpoint) for endpoint in endpoints]
    mounted += [
        Route("/api/events", EventsEndpoint(hub), methods=["GET"]),
        Route("/api/{rest:path}", not_found, methods=["GET", "POST", "DELETE"]),
        Route("/openapi.json", openapi),
        Route("/metrics", metrics),
    ]
    if page:
        mounted.append(Mount("/", _static_files()))
    return Starlette(
        routes=mounted,
        middleware=[Middleware(Guard, access=access)],
        exception_handlers=dict.fromkeys((InputError, ValidationError, HTTPException), _on_error),
        lifespan=lifespan,
    )


def _static_files() -> StaticFiles:
    with as_file(files("evenflow.service") / "page") as folder:
        return StaticFiles(directory=folder, html=True)


def _route(endpoint: Endpoint) -> Route:
    async def handle(request: Request) -> Response:
        if endpoint.follow is not None and wants_events(request):
            return cast("Response", await endpoint.follow(request))
        if endpoint.body is None:
            result = await run_in_threadpool(endpoint.handle, request)
        else:
            body = await _parse_body(request, endpoint.body)
            result = await run_in_threadpool(endpoint.handle, request, body)
        return Response(_ANY.dump_json(result), media_type=_JSON_TYPE)

    return Route(endpoint.path, handle, methods=[endpoint.method])


async def _parse_body(request: Request, model: type[BaseModel]) -> BaseModel:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON_TYPE:
        given = repr(kind) if kind else "none"
        raise HTTPException(415, f"the content type must be {_JSON_TYPE}, got {given}")
    return model.model_validate_json(await request.body())


async def _on_error(_: Request, error: Exception) -> Response:
    status, message, headers = 400, str(error), None
    if isinstance(error, HTTPException):
        status, message, headers = error.status_code, str(error.detail), error.headers
    elif isinstance(error, ValidationError):
        message = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'body'}: {item['msg']}, "
            f"got {str(item['input'])[:60]!r}"
            for item in error.errors(include_url=False, include_context=False)[:10]
        )
    return JSONResponse({"error": message}, status, headers)
