"""Pydantic models generated from dataclasses, so that fields are declared only once."""

import re
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, BeforeValidator, create_model
from pydantic import Field as ModelField

from evenflow.spec.base import SpecModel

# YAML reads a bare `off` as false.
_TextOrOff = Annotated[str, BeforeValidator(lambda value: "off" if value is False else value)]


def model_from_dataclass(value: type, **more: Any) -> type[BaseModel]:
    """Return a model with the fields and defaults of a dataclass, plus `more`.

    Field descriptions come from `metadata["help"]`, or from the table in the class docstring.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Box:
    ...     '''A box.
    ...
    ...     size   in metres
    ...     '''
    ...     size: int = 3
    >>> model = model_from_dataclass(Box)
    >>> model(size=5).model_dump(), model.model_fields["size"].description
    ({'size': 5}, 'In metres.')
    """
    hints, descriptions = get_type_hints(value), _field_docs(value.__doc__ or "")
    model_fields: dict[str, Any] = {
        each.name: (
            _TextOrOff if hints[each.name] is str else hints[each.name],
            _model_field(each, descriptions.get(each.name, "")),
        )
        for each in fields(value)
    }
    return create_model(
        value.__name__,
        __base__=SpecModel,
        __doc__=(value.__doc__ or "").split("\n")[0],
        **more,
        **model_fields,
    )


def _model_field(each: "Field[Any]", description: str) -> Any:
    default = each.default if each.default is not MISSING else ...
    return ModelField(default, description=each.metadata.get("help", description))


def _field_docs(doc: str) -> dict[str, str]:
    """Parse the lines `name, name   description` of a docstring; deeper lines continue one."""
    rows: list[list[str]] = []
    for line in doc.splitlines():
        entry = re.fullmatch(r"( +)([a-z_]+(?:, [a-z_]+)*) {2,}(\S.*)", line)
        if entry is not None:
            rows.append([entry[2], entry[3]])
        elif rows and re.match(r" {12,}\S", line):
            rows[-1].append(line.strip())
        elif rows and not line.strip():
            break
    texts = ((names, " ".join(parts)) for names, *parts in rows)
    return {
        name: f"{text[0].upper()}{text[1:]}." for names, text in texts for name in names.split(", ")
    }
