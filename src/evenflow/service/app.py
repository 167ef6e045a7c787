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
from evenflow.service import actions, reading
from evenflow.service.events import Events, Hub
from evenflow.service.guard import Access, Guard
from evenflow.service.openapi import Endpoint, describe
from evenflow.service.running import Running
from evenflow.service.watcher import Watcher

_JSON = "application/json"


def application(
    run: Running,
    watcher: Watcher,
    hub: Hub,
    access: Access,
    *,
    page: bool = True,
    started: Callable[[], None] | None = None,
) -> Starlette:
    """Return the application; `started` is called on its event loop before the first request."""
    endpoints = [*reading.endpoints(watcher, hub), *actions.endpoints(run)]
    described = describe(endpoints)

    async def openapi(_: Request) -> Response:
        return JSONResponse(described)

    async def nothing(request: Request) -> Response:
        raise HTTPException(404, f"there is nothing at {request.url.path}; see /openapi.json")

    async def metrics(_: Request) -> Response:
        return Response(watcher.metrics.text(), media_type="text/plain; version=0.0.4")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if started is not None:
            started()
        yield
        hub.close()

    routes: list[Route | Mount] = [_route(endpoint) for endpoint in endpoints]
    routes += [
        Route("/api/events", Events(hub), methods=["GET"]),
        Route("/api/{rest:path}", nothing, methods=["GET", "POST", "DELETE"]),
        Route("/openapi.json", openapi),
        Route("/metrics", metrics),
    ]
    if page:
        routes.append(Mount("/", _static()))
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={
            InputError: _refused,
            ValidationError: _malformed,
            HTTPException: _not_there,
        },
        lifespan=lifespan,
    )


def _static() -> StaticFiles:
    """Serve the files of the package alone."""
    with as_file(files("evenflow.service") / "page") as folder:
        return StaticFiles(directory=folder, html=True)


def _route(endpoint: Endpoint) -> Route:
    async def handle(request: Request) -> Response:
        if endpoint.body is None:
            answer = await run_in_threadpool(endpoint.handle, request)
        else:
            body = await _body(request, endpoint.body)
            answer = await run_in_threadpool(endpoint.handle, request, body)
        return Response(_dump(answer), media_type=_JSON)

    return Route(endpoint.path, handle, methods=[endpoint.method])


async def _body(request: Request, model: type[BaseModel]) -> BaseModel:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON:
        raise HTTPException(415, f"send {_JSON}, got {kind or 'no content type'!r}")
    return model.model_validate_json(await request.body())


def _dump(answer: BaseModel | Sequence[BaseModel]) -> bytes:
    return TypeAdapter(Any).dump_json(answer)


async def _refused(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)


async def _malformed(_: Request, error: Exception) -> Response:
    """Name every field that is wrong, on one line."""
    assert isinstance(error, ValidationError)  # noqa: S101 - registered for it alone
    said = [
        f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}, got {str(one['input'])[:60]!r}"
        for one in error.errors(include_url=False, include_context=False)[:10]
    ]
    return JSONResponse({"error": "; ".join(said)}, 400)


async def _not_there(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it alone
    return JSONResponse({"error": str(error.detail)}, error.status_code, headers=error.headers)
