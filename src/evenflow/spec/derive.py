"""Models of frozen dataclasses: their fields, defaults and checks, written down once."""

from dataclasses import MISSING, Field, fields
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model
from pydantic import Field as ModelField


def model_of(value: type, **more: Any) -> type[BaseModel]:
    """Return a model that takes what the dataclass takes and refuses any other field.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Box:
    ...     size: int = 3
    >>> model_of(Box)(size=5).model_dump()
    {'size': 5}
    """
    hints = get_type_hints(value)
    said: dict[str, Any] = {each.name: (hints[each.name], _said(each)) for each in fields(value)}
    return create_model(
        value.__name__,
        __config__=ConfigDict(extra="forbid", frozen=True),
        __doc__=(value.__doc__ or "").split("\n")[0],
        **more,
        **said,
    )


def _said(each: "Field[Any]") -> Any:
    default = each.default if each.default is not MISSING else ...
    return ModelField(default, description=each.metadata.get("help", ""))
