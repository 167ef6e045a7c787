"""Declare a function of the user: its name, where it is, and what it returns."""

from collections.abc import Collection

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model.user_function import UserFunction
from evenflow.names import check_name
from evenflow.sql.catalog import result_type
from evenflow.sql.import_paths import object_path
from evenflow.sql.translate.registry import FUNCTIONS
from evenflow.sql.types import spark_name
from evenflow.sql.user_functions import UserCallable, import_function


def declare_function(
    name: str, function: UserCallable | str, returns: str, taken: Collection[str]
) -> UserFunction:
    """Check a function, or its path, and the name that queries call it by."""

    check_name(name, "function")
    if name.lower() in FUNCTIONS or name.lower() in {other.lower() for other in taken}:
        raise InputError(f"function {name!r} exists already; use another name")
    path = function if isinstance(function, str) else object_path(function, "function")
    import_function(path)
    declared = UserFunction(path, returns)
    if pa.types.is_nested(returned := result_type(declared)):
        raise InputError(f"function {name!r} returns {spark_name(returned)}; use a scalar type")
    return declared
