"""A second look at a statement, by its syntax tree: it must not be able to open a file."""

import json
import re
from collections.abc import Collection
from typing import Any

_WORD = re.compile(r"[a-z0-9_]+")
_TABLE_FUNCTIONS = ("range", "generate_series", "unnest")  # they open no files
_PATH_CHARACTERS = frozenset("./\\*?[:")  # DuckDB reads a file if its name is used as a table


def may_open_files(sql: str, table_functions: Collection[str]) -> bool:
    """Tell, without parsing it, whether a statement could open a file by an absolute path.

    It needs a table function, or a path instead of a table, or is not a SELECT. False is certain.

    >>> may_open_files("SELECT a + 1 AS b FROM t", {"glob"})
    False
    >>> [may_open_files(f"SELECT * FROM {table}", {"glob"}) for table in ("glob('x')", "'/a/x'")]
    [True, True]
    """
    text = sql.lower()
    is_select = text.startswith(("select ", "with ")) and ";" not in text
    if not is_select or "/" in text or "\\" in text or "u&" in text:
        return True
    return not set(_WORD.findall(text)).isdisjoint(table_functions)


def find_file_access(tree: str) -> str | None:
    """Return why a statement is refused, given DuckDB's tree of it as JSON; None if it is not.

    Only a SELECT over tables has a tree; anything else is refused.
    """
    parsed = json.loads(tree)
    if parsed["error"]:
        return "the statement is not a SELECT"
    nodes: list[Any] = [parsed]
    while nodes:
        node = nodes.pop()
        if isinstance(node, list):
            nodes += node
        elif isinstance(node, dict):
            nodes += node.values()
            kind = node.get("type")
            if kind == "TABLE_FUNCTION":
                name = node["function"]["function_name"]
                if name not in _TABLE_FUNCTIONS:
                    return f"the table function {name} is not allowed"
            elif kind == "BASE_TABLE" and _PATH_CHARACTERS & set(node["table_name"]):
                return f"{node['table_name']!r} is not the name of a table"
    return None
