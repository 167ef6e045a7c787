"""A function of the user that queries can call."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UserFunction:
    """Where a function is (`package.module:name`) and the Spark type that it returns."""

    path: str
    returns: str
