"""The ASGI application: endpoints of the API, the page, errors as JSON."""

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from importlib.resources import as_file, files
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from evenflow.errors import InputError
from evenflow.service import routes
from evenflow.service.api_model import refuse_repeated_names
from evenflow.service.audit import AuditLog
from evenflow.service.events import EventHub, EventsEndpoint
from evenflow.service.guard import AccessPolicy, Guard, error_response
from evenflow.service.openapi import Endpoint, openapi_document
from evenflow.service.results import ResultStreams, wants_events
from evenflow.service.run_protocol import RunProtocol
from evenflow.service.tokens import LOCAL_CALLER, Caller, Role
from evenflow.service.watcher import Watcher

_log = logging.getLogger(__name__)
_JSON_TYPE = "application/json"
_ANY = TypeAdapter(Any)
_MAX_SHOWN_PROBLEMS = 10


def application(
    run: RunProtocol,
    watcher: Watcher,
    hub: EventHub,
    access: AccessPolicy,
    *,
    audit: AuditLog | None = None,
    page: bool = True,
    started: Callable[[], None] | None = None,
) -> Starlette:
    """Return the application; `started` is called on its event loop before the first request."""
    audit, results = audit or AuditLog(), ResultStreams(run)
    endpoints = [
        *routes.read_endpoints(watcher, hub, results),
        *routes.health_endpoints(watcher, hub),
        *routes.write_endpoints(run),
    ]
    document = openapi_document(endpoints)

    async def openapi(_: Request) -> Response:
        return JSONResponse(document)

    async def metrics(_: Request) -> Response:
        return Response(watcher.metrics.exposition(), media_type="text/plain; version=0.0.4")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if started is not None:
            started()
        yield
        hub.close()

    mounted: list[Route | Mount] = [
        *endpoint_routes(endpoints, audit),
        Route("/api/events", _only("GET", EventsEndpoint(hub))),
        Route("/api/{rest:path}", _NotFound()),
        Route("/openapi.json", openapi),
        Route("/metrics", metrics),
    ]
    if page:
        mounted.append(Mount("/", _static_files()))
    return Starlette(
        routes=mounted,
        middleware=[Middleware(Guard, access=access, audit=audit)],
        exception_handlers=ERROR_HANDLERS,
        lifespan=lifespan,
    )


def _static_files() -> StaticFiles:
    with as_file(files("evenflow.service") / "page") as folder:
        return StaticFiles(directory=folder, html=True)


def endpoint_routes(endpoints: Iterable[Endpoint], audit: AuditLog) -> list[Route]:
    """Return one route per path; it answers 405 to methods that the path does not have."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    return [Route(path, _Dispatch(methods, audit)) for path, methods in by_path.items()]


class _Dispatch:
    """The ASGI application of one path: chooses the endpoint by method, checks the role."""

    def __init__(self, methods: dict[str, Endpoint], audit: AuditLog) -> None:
        self._methods, self._audit = dict(methods), audit
        if "GET" in methods:
            self._methods["HEAD"] = methods["GET"]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive, send)
        endpoint = self._methods.get(request.method)
        if endpoint is None:
            raise _wrong_method(request.method, self._methods)
        response = await self._respond(endpoint, request)
        await response(scope, receive, send)

    async def _respond(self, endpoint: Endpoint, request: Request) -> Response:
        caller: Caller = getattr(request.state, "caller", LOCAL_CALLER)
        body: BaseModel | None = None
        problem = None
        try:
            _require(caller, endpoint.role)
            if endpoint.body is not None:
                body = await _parse_body(request, endpoint.body)
            if endpoint.follow is not None and wants_events(request):
                return cast("Response", await endpoint.follow(request))
            arguments = (request,) if body is None else (request, body)
            async with endpoint.slots:
                result = await run_in_threadpool(endpoint.handle, *arguments)
            response = Response(_ANY.dump_json(result), media_type=_JSON_TYPE)
        except ClientDisconnect:
            response = Response(status_code=400)  # nobody is there to get it
        except Exception as error:
            problem = error
            response = await _on_error(request, error)
        if endpoint.role is not Role.READ:
            self._audit.add(
                token=caller.name,
                tenant=caller.tenant,
                client=request.client.host if request.client else None,
                command=endpoint.command,
                subject=next(iter(request.path_params.values()), None),
                body=None if body is None else body.model_dump_json(exclude_defaults=True),
                status=response.status_code,
                error=None if problem is None else json.loads(bytes(response.body))["error"],
            )
        return response


class _NotFound:
    """Answers 404 to every method."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        raise HTTPException(404)


def _only(method: str, app: Any) -> Any:
    """Wrap an ASGI application so that it answers 405 to other methods."""

    class Only:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["method"] != method:
                raise _wrong_method(scope["method"], [method])
            await app(scope, receive, send)

    return Only()


def _wrong_method(method: str, allowed: Iterable[str]) -> HTTPException:
    names = ", ".join(sorted(allowed))
    return HTTPException(405, f"{method} is not possible here; use {names}", {"allow": names})


def _require(caller: Caller, role: Role) -> None:
    if not caller.role.includes(role):
        raise HTTPException(
            403, f"token {caller.name!r} has the role {caller.role}; this needs the role {role}"
        )


async def _parse_body(request: Request, model: type[BaseModel]) -> BaseModel:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON_TYPE:
        given = repr(kind[:80]) if kind else "none"
        raise HTTPException(415, f"the content type must be {_JSON_TYPE}, got {given}")
    body = await request.body()
    parsed = model.model_validate_json(body)  # first: it refuses what is nested too deep
    try:
        refuse_repeated_names(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"body: {error}") from None
    return parsed


async def _on_error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return error_response(error.status_code, _http_message(request, error), error.headers)
    if isinstance(error, ValidationError):
        problems = error.errors(include_url=False, include_context=False)
        return error_response(400, "; ".join(map(_problem_text, problems[:_MAX_SHOWN_PROBLEMS])))
    if isinstance(error, InputError):
        return error_response(400, str(error))
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    kind = type(error).__name__
    return error_response(500, f"the request failed inside Evenflow ({kind}); see the driver's log")


def _http_message(request: Request, error: HTTPException) -> str:
    if error.status_code == 404 and error.detail == "Not Found":
        return f"nothing at {request.url.path}; /openapi.json lists all paths"
    return str(error.detail)


def _problem_text(item: Any) -> str:
    try:
        given = repr(str(item["input"])[:60])
    except ValueError:  # a number with more digits than Python prints
        given = "a very large number"
    return f"{'.'.join(map(str, item['loc'])) or 'body'}: {item['msg']}, got {given}"


ERROR_HANDLERS: Any = dict.fromkeys(
    (InputError, ValidationError, HTTPException, Exception), _on_error
)
