"""Where an operator's class is, as text, and the class that stands there."""

from importlib import import_module
from typing import Any

from evenflow.errors import InputError
from evenflow.sql.tasks.operator import Operator


def operator_path(operator: type[Operator]) -> str:
    """Return where workers find an operator's class."""
    path = f"{operator.__module__}:{operator.__qualname__}"
    if operator.__module__ == "__main__" or "<locals>" in path:
        raise InputError(
            f"operator {path} cannot be imported by workers; define it at the top of a module"
        )
    return path


def import_operator(path: str) -> type[Operator]:
    """Return the class at a path that `operator_path` gave.

    >>> import_operator("math:pi")
    Traceback (most recent call last):
    ...
    evenflow.errors.InputError: math:pi is no evenflow.sql.Operator
    """
    module, _, name = path.partition(":")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"{path} cannot be imported: {error}; write package.module:Class, where Python finds it"
        ) from None
    if not (isinstance(found, type) and issubclass(found, Operator)):
        raise InputError(f"{path} is no evenflow.sql.Operator")
    return found
