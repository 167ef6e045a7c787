"""The HTTP API and the page as one ASGI application."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.resources import as_file, files
from typing import Any

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
from evenflow.service import actions, routes
from evenflow.service.events import EventHub, EventsEndpoint
from evenflow.service.guard import AccessPolicy, Guard
from evenflow.service.openapi import Endpoint, openapi_document
from evenflow.service.run_protocol import RunProtocol
from evenflow.service.watcher import Watcher

_JSON_TYPE = "application/json"


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
    endpoints = [*routes.read_endpoints(watcher, hub), *actions.write_endpoints(run)]
    described = openapi_document(endpoints)

    async def openapi(_: Request) -> Response:
        return JSONResponse(described)

    async def nothing(request: Request) -> Response:
        raise HTTPException(404, f"there is nothing at {request.url.path}; see /openapi.json")

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
        Route("/api/{rest:path}", nothing, methods=["GET", "POST", "DELETE"]),
        Route("/openapi.json", openapi),
        Route("/metrics", metrics),
    ]
    if page:
        mounted.append(Mount("/", _static_files()))
    return Starlette(
        routes=mounted,
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={
            InputError: _on_input_error,
            ValidationError: _on_validation_error,
            HTTPException: _on_http_error,
        },
        lifespan=lifespan,
    )


def _static_files() -> StaticFiles:
    """Serve the files of the package alone."""
    with as_file(files("evenflow.service") / "page") as folder:
        return StaticFiles(directory=folder, html=True)


def _route(endpoint: Endpoint) -> Route:
    async def handle(request: Request) -> Response:
        if endpoint.body is None:
            answer = await run_in_threadpool(endpoint.handle, request)
        else:
            body = await _parse_body(request, endpoint.body)
            answer = await run_in_threadpool(endpoint.handle, request, body)
        return Response(_to_json(answer), media_type=_JSON_TYPE)

    return Route(endpoint.path, handle, methods=[endpoint.method])


async def _parse_body(request: Request, model: type[BaseModel]) -> BaseModel:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON_TYPE:
        raise HTTPException(415, f"send {_JSON_TYPE}, got {kind or 'no content type'!r}")
    return model.model_validate_json(await request.body())


def _to_json(answer: BaseModel | Sequence[BaseModel]) -> bytes:
    return TypeAdapter(Any).dump_json(answer)


async def _on_input_error(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)


async def _on_validation_error(_: Request, error: Exception) -> Response:
    """Name every field that is wrong, on one line."""
    assert isinstance(error, ValidationError)  # noqa: S101 - registered for it alone
    said = [
        f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}, got {str(one['input'])[:60]!r}"
        for one in error.errors(include_url=False, include_context=False)[:10]
    ]
    return JSONResponse({"error": "; ".join(said)}, 400)


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it alone
    return JSONResponse({"error": str(error.detail)}, error.status_code, headers=error.headers)
