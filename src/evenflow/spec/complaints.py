"""Pydantic's findings in our words."""

from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

from evenflow.spec.document import Document, FieldPath, SpecProblem

_EXPECTED_TYPES = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "`name: value` lines",
    "model_type": "`name: value` lines",
    "model_attributes_type": "`name: value` lines",
    "tuple_type": "a list",
}


def problems_from_pydantic(
    error: ValidationError, document: Document, model: type[BaseModel]
) -> list[SpecProblem]:
    """Return every finding with its place."""
    return [_problem(found, document, model) for found in error.errors()]


def _problem(found: Any, document: Document, model: type[BaseModel]) -> SpecProblem:
    where, kind = _field_path(found["loc"]), found["type"]
    if kind == "extra_forbidden":
        return document.problem_at(where, _unknown_field(where, model), at_key=True)
    if kind.startswith("union_tag"):
        where = (*where, "kind")
    return document.problem_at(where, _message(found))


def _message(found: Any) -> str:
    kind, got, context = found["type"], _short_repr(found["input"]), found.get("ctx", {})
    if kind == "missing":
        return "is missing; give it"
    if kind == "value_error":
        return str(context["error"])
    if kind.startswith("union_tag"):
        return f"expected one of {context.get('expected_tags', 'the kinds in docs/spec.md')}"
    if kind == "literal_error":
        return f"expected {context['expected']}, got {got}"
    if kind in _EXPECTED_TYPES:
        return f"expected {_EXPECTED_TYPES[kind]}, got {got}"
    return f"{found['msg'].lower()}, got {got}"


def _unknown_field(where: FieldPath, model: type[BaseModel]) -> str:
    known = _known_fields(model, where[:-1])
    near = get_close_matches(str(where[-1]), known, 1)
    hint = f"did you mean {near[0]!r}? There" if near else "there"
    return f"there is no such field; {hint} are {', '.join(known)}"


def _field_path(loc: FieldPath) -> FieldPath:
    # Pydantic names the member of a union between the dataset and its field.
    if len(loc) > 2 and loc[0] == "datasets":
        loc = (*loc[:2], *loc[3:])
    return tuple(part for part in loc if part != "[key]")


def _known_fields(model: Any, where: FieldPath) -> list[str]:
    """Return the fields that may stand at a place, as they are written."""
    for part in where:
        field = (
            next((f for n, f in model.model_fields.items() if (f.alias or n) == part), None)
            if model is not None
            else None
        )
        if field is None:
            continue  # the name of an entry: its fields are those of the model below
        model = _nested_model(field.annotation)
    if model is None:
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def _nested_model(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inside = (_nested_model(each) for each in getattr(annotation, "__args__", ()))
    return next((each for each in inside if each is not None), None)


def _short_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
