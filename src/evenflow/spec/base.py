"""What all parts of a specification share."""

from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails

SparkOptions = dict[str, Any]
NameList = Annotated[tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)]


class SpecModel(BaseModel):
    """Base of all parts of a specification: frozen, unknown fields are errors.

    A text is taken for a number, as variables are texts; `true` is not, nor are `.nan` and `.inf`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_bool_as_number(cls, data: Any) -> Any:
        given = data.items() if isinstance(data, dict) else ()
        errors: list[InitErrorDetails] = []
        for name, value in given:
            field = cls.model_fields.get(name)
            if isinstance(value, bool) and field is not None:
                kinds = _plain_types(field.annotation)
                if bool not in kinds and kinds & {int, float}:
                    kind = "int_type" if int in kinds else "float_type"
                    errors.append({"type": kind, "loc": (name,), "input": value})
        if errors:
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return data


def _plain_types(annotation: Any) -> set[Any]:
    """Return the types that a union is made of.

    >>> sorted(each.__name__ for each in _plain_types(int | Annotated[str, "x"] | None))
    ['NoneType', 'int', 'str']
    """
    parts = get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        parts = parts[:1]
    if not parts or isinstance(annotation, type):
        return {annotation}
    return set().union(*map(_plain_types, parts))
