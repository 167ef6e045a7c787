"""Read a specification file: YAML, overrides, pydantic models, then all checks."""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from evenflow.errors import InputError
from evenflow.spec.check import CheckedSpec, SpecChecker
from evenflow.spec.document import (
    MAX_FILE_BYTES,
    Document,
    FieldPath,
    ProblemLog,
    SpecError,
    SpecProblem,
)
from evenflow.spec.files import resolve_path
from evenflow.spec.models import Spec
from evenflow.storage.options import StorageOptions, storage_options

_EXPECTED_TYPES = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "`name: value` lines",
    "model_type": "`name: value` lines",
    "model_attributes_type": "`name: value` lines",
    "tuple_type": "a list",
}


class _Hidden:
    """A value that may be a secret written in the wrong place."""

    def __repr__(self) -> str:
        return "a value that is not shown; secrets belong into a variable or a file"


_NOT_SHOWN = _Hidden()


def load_spec(path: Path, overrides: Sequence[str] = ()) -> CheckedSpec:
    """Read and check a specification; `overrides` are `dotted.path=value`."""
    document = read_document(path, overrides)
    try:
        spec = Spec.model_validate(document.value)
    except ValidationError as error:
        raise SpecError([_problem(item, document) for item in error.errors()]) from None
    folder = path.resolve().parent
    # Operators may be defined in a module next to the file.
    if spec.operators and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    log = ProblemLog(document)
    checked = SpecChecker(log, spec, folder).check()
    if log.problems:
        raise SpecError(log.problems)
    return checked


def read_document(path: Path, overrides: Sequence[str] = ()) -> Document:
    """Read a YAML file with overrides and variables applied; nothing else is checked."""
    document = Document(str(path), _read(path))
    for assignment in overrides:
        document.override(assignment)
    problems = document.substitute_variables()
    if problems:
        raise SpecError(problems)
    return document


def checkpoint_of(path: Path) -> tuple[str, StorageOptions]:
    """Return the checkpoint of a specification and its storage, without checking the rest."""
    document = read_document(path)
    value, storage = document.value.get("checkpoint"), document.value.get("storage", {})
    if not isinstance(value, str):
        raise InputError(f"{path}: checkpoint: is required but missing")
    if not isinstance(storage, dict):
        raise InputError(f"{path}: storage: must be a mapping, got {storage!r}")
    return resolve_path(value, path.resolve().parent), storage_options(storage)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise InputError(
                f"{path}: has more than {MAX_FILE_BYTES:,} bytes; put large tables and "
                "subscriptions into files of their own"
            )
        return data.decode("utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _problem(item: Any, document: Document) -> SpecProblem:
    """Turn an error of pydantic into a problem with a position."""
    where, kind = _field_path(item["loc"]), item["type"]
    if kind == "extra_forbidden":
        return document.problem_at(where, _unknown_field(where), at_key=True)
    if kind.startswith("union_tag"):
        where = (*where, "kind")
    written = document.written_at(where, item["input"])
    if where[:2] == ("service", "tokens"):
        written = _NOT_SHOWN
    return document.problem_at(where, _message(item, written))


def _message(item: Any, written: Any) -> str:
    kind, given, context = item["type"], repr(written), item.get("ctx", {})
    given = given if len(given) <= 60 else f"{given[:57]}..."
    if kind == "missing":
        return "is required but missing"
    if kind == "value_error":
        return str(context["error"])
    if kind.startswith("union_tag"):
        kinds = context.get("expected_tags", "the kinds in docs/reference/spec.md")
        return f"expected one of {kinds}"
    if kind == "literal_error":
        return f"expected {context['expected']}, got {given}"
    if kind in _EXPECTED_TYPES:
        return f"expected {_EXPECTED_TYPES[kind]}, got {given}"
    return f"{item['msg'].lower()}, got {given}"


def _unknown_field(where: FieldPath) -> str:
    known = _known_fields(where[:-1])
    near = get_close_matches(str(where[-1]), known, 1)
    hint = f"did you mean {near[0]!r}? The" if near else "the"
    return f"unknown field; {hint} fields are {', '.join(known)}"


def _field_path(loc: FieldPath) -> FieldPath:
    # Pydantic inserts the name of the union member between the dataset and its field.
    if len(loc) > 2 and loc[0] == "datasets":
        loc = (*loc[:2], *loc[3:])
    return tuple(part for part in loc if part != "[key]")


def _known_fields(where: FieldPath) -> list[str]:
    """Return the fields that are valid at a path, as they are written in YAML."""
    model: Any = Spec
    for part in where:
        fields = {} if model is None else model.model_fields
        field = next((f for name, f in fields.items() if (f.alias or name) == part), None)
        if field is not None:  # else the name of an entry, such as that of a query
            model = _nested_model(field.annotation)
    if model is None:
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def _nested_model(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    nested = (_nested_model(each) for each in getattr(annotation, "__args__", ()))
    return next((model for model in nested if model is not None), None)
