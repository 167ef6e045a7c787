"""Import paths of the user's classes and functions: `package.module:name`."""

from importlib import import_module
from typing import Any

from evenflow.errors import InputError


def object_path(target: Any, kind: str) -> str:
    """Return the import path of a class or function; workers must be able to import it."""
    path = f"{target.__module__}:{target.__qualname__}"
    if target.__module__ == "__main__" or "<" in path:
        raise InputError(
            f"{kind} {path} cannot be imported by workers; define it at the top of a module"
        )
    return path


def import_object(path: str, form: str) -> Any:
    """Return what is at an import path; `form` is how to write one."""
    module, _, name = path.partition(":")
    try:
        target: Any = import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"{path} cannot be imported: {error}; write {form}, and put the module where Python "
            "finds it"
        ) from None
    return target
