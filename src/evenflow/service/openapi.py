"""The OpenAPI document, generated from the endpoints and their schemas."""

import re
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from evenflow.service import schemas
from evenflow.service.parameters import MAX_ITEMS
from evenflow.service.query_list import QueryFilter, QueryOrder
from evenflow.service.tokens import Role

# Parameters of query strings: type and description.
_NUMBER = {"type": "integer", "minimum": 1, "maximum": MAX_ITEMS}
_QUERY_PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "limit": (_NUMBER, "maximum number of items"),
    "all": ({"enum": ["0", "1", "false", "true"]}, "include decisions that changed nothing"),
    "query": ({"type": "string"}, "only keys or moves of this query"),
    "key": ({"type": "string"}, "only moves of this key: its value, or # and its hash in hex"),
    "count": (_NUMBER, "maximum number of keys"),
    "points": (_NUMBER, "maximum number of points; with many workers fewer are given"),
    "start": ({"type": "number"}, "only batches from this time on, in seconds since 1970"),
    "end": ({"type": "number"}, "only batches until this time, in seconds since 1970"),
    "search": ({"type": "string"}, "part of the name"),
    "show": ({"enum": [*get_args(QueryFilter)]}, "only these queries"),
    "order": ({"enum": [*get_args(QueryOrder)]}, "what to sort by"),
    "descending": ({"enum": ["0", "1"]}, "1: largest first"),
    "offset": ({"type": "integer", "minimum": 0, "maximum": 10_000_000}, "rows to leave out"),
    "since": (
        {"type": "string", "pattern": "^[0-9]{1,15}([.][0-9]{1,15})?$"},
        "position to begin at: a batch number, or `next` of a page",
    ),
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method and path; `handle` takes the request and, if there is one, the parsed body.

    `response` is the schema of the response, or of its items if `is_list`. `follow` answers a
    client that asks for server-sent events. `slots` limits how many requests are handled at once,
    where one may take seconds: threads for the others are left.
    """

    method: str
    path: str
    summary: str
    handle: Any
    response: type[BaseModel]
    is_list: bool = False
    body: type[BaseModel] | None = None
    parameters: tuple[str, ...] = ()
    follow: Any = None
    role: Role = Role.READ
    command: str = ""  # of a write, for the audit log
    slots: AbstractAsyncContextManager[None] = field(default_factory=nullcontext)


def openapi_document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Return the document of `/openapi.json`."""
    endpoints = list(endpoints)
    models: set[type[BaseModel]] = {schemas.ErrorBody}
    models |= {model for e in endpoints for model in (e.response, e.body) if model is not None}
    listed = sorted(models, key=lambda model: model.__name__)
    _, definitions = models_json_schema(
        [(model, "serialization") for model in listed], ref_template="#/components/schemas/{model}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Evenflow", "version": version("evenflow")},
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    response: dict[str, Any] = _schema_ref(endpoint.response)
    if endpoint.is_list:
        response = {"type": "array", "items": response}
    parameters = [
        _parameter(name, "path", {"type": "string"}, required=True)
        for name in re.findall(r"{(\w+)}", endpoint.path)
    ]
    for name in endpoint.parameters:
        schema, description = _QUERY_PARAMETERS[name]
        parameters.append(_parameter(name, "query", schema, description=description))
    if endpoint.method != "GET":
        header = {"type": "string", "const": "1"}
        parameters.append(_parameter("X-Evenflow", "header", header, required=True))
    words = re.findall(r"\w+", endpoint.path.removeprefix("/api"))
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": "_".join((endpoint.method.lower(), *words)),
        "parameters": parameters,
        "responses": {
            "200": {"description": "OK", **_json_content(response)},
            "default": {"description": "Rejected", **_json_content(_schema_ref(schemas.ErrorBody))},
        },
    }
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, **_json_content(_schema_ref(endpoint.body))}
    return operation


def _parameter(name: str, place: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, **more, "schema": schema}


def _json_content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _schema_ref(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}
