"""Why a statement failed, told without the values of rows, which other tenants must not read."""

import re
from typing import Literal

from evenflow.errors import shorten

# What rules raise with DuckDB's error(...). Constant texts: no row is in them.
DIVISION_BY_ZERO = "division by zero; write try_divide(a, b) to get NULL instead"
NOT_WHOLE = "a text is not a whole number; write TRY_CAST to get NULL instead"
NOT_DECIMAL = "a text is not a decimal number; write TRY_CAST to get NULL instead"
NOT_A_DATE = "a text is not a date; write 2026-01-31"
NOT_A_NUMBER = "a text is not a number; write TRY_CAST to get NULL instead"
NOT_A_TIME = "a text is not a timestamp; write TRY_CAST or try_to_timestamp to get NULL instead"
NOT_BOOLEAN = "a text is not true or false; write TRY_CAST to get NULL instead"
NOT_IN_ARRAY = "an index is outside of an array; write get or try_element_at to get NULL instead"
BAD_ARGUMENT = "an argument of a function has a value on which Spark fails"
OVERFLOW = "a number is out of range"
TOO_MANY_ITEMS = "sequence makes more than 10,000 values"
PATTERN_KEY = "a key of parse_url is a pattern; use regexp_extract of its query"
_RAISED = (
    DIVISION_BY_ZERO, NOT_WHOLE, NOT_DECIMAL, NOT_A_DATE, NOT_A_NUMBER, NOT_A_TIME, NOT_BOOLEAN,
    NOT_IN_ARRAY, BAD_ARGUMENT, OVERFLOW, TOO_MANY_ITEMS, PATTERN_KEY,
)  # fmt: skip

_SPARK_TYPES = {"INT8": "TINYINT", "INT16": "SMALLINT", "INT32": "INT", "INT64": "BIGINT",
                "INT128": "DECIMAL"}  # fmt: skip
_TYPE = r"(INT(?:8|16|32|64|128)|DECIMAL(?:\(\d+,\s?\d+\))?|FLOAT|DOUBLE|DATE|TIMESTAMP|BOOLEAN)"
_TARGET = re.compile(rf"\bto (?:type )?{_TYPE}|destination type {_TYPE}")
_OVERFLOW = re.compile(
    rf"Overflow in (addition|subtraction|multiplication|division|negation) of {_TYPE}"
)
# These concern the text of the statement, before any row is read.
_PLAN_ERRORS = ("Binder", "Parser", "Catalog", "Syntax", "Internal", "Not implemented")
_MAX_PLAN_MESSAGE = 300


class QueryFailed(Exception):  # noqa: N818 - it is the query that failed, not the program
    """A query exceeded a limit, or failed on a row; drop its task and quarantine the query.

    `reason`: a time limit, DuckDB's memory limit, the bound on results, a statement that DuckDB
    cannot plan, or an error of the query or Python operator. The message has no values of rows.
    """

    def __init__(
        self, reason: Literal["time", "memory", "result", "plan", "error"], message: str
    ) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return self.message


def is_plan_error(message: str) -> bool:
    """Tell whether DuckDB could not plan a statement, so that it fails on every row.

    >>> is_plan_error("Binder Error: no such column"), is_plan_error("Conversion Error: 'x'")
    (True, False)
    """
    return message.startswith(_PLAN_ERRORS)


def describe_engine_error(message: str) -> str:
    """Say what failed: the operation and the type, but no value.

    >>> describe_engine_error("Conversion Error: Could not convert string 'secret' to INT32")
    'a value cannot be converted to INT; write TRY_CAST to get NULL instead'
    >>> describe_engine_error("Out of Range Error: Overflow in addition of INT64 (17 + 4)!")
    'overflow in addition of BIGINT'
    """
    kind, _, text = message.partition(" Error: ")
    if is_plan_error(message):
        if "Max expression depth" in text:
            return "it is nested too deeply; use fewer levels"
        return f"the engine cannot run it: {shorten(message.splitlines()[0], _MAX_PLAN_MESSAGE)}"
    result = f"it failed on a row ({kind if len(kind) < 30 and text else 'error'})"
    if text in _RAISED:
        result = text
    elif (overflow := _OVERFLOW.match(text)) is not None:
        result = f"overflow in {overflow[1]} of {_SPARK_TYPES.get(overflow[2], overflow[2])}"
    elif kind == "Out of Range":
        result = "a number is out of range"
    elif kind == "Conversion":
        targets = [first or second for first, second in _TARGET.findall(text.split("\n\nLINE ")[0])]
        into = f" to {_SPARK_TYPES.get(targets[-1], targets[-1])}" if targets else ""
        result = f"a value cannot be converted{into}; write TRY_CAST to get NULL instead"
    return result
