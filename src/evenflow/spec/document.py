"""A YAML text as plain values that still know where they stood."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from evenflow.errors import InputError

FieldPath = tuple[str | int, ...]
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """What is wrong with one field of a file; lines and columns count from 1.

    What was set by hand has no line (0), and the option as its file.
    """

    file: str
    line: int
    column: int
    field: str
    message: str

    def __str__(self) -> str:
        named = f"{self.field}: " if self.field else ""
        place = f":{self.line}:{self.column}" if self.line else ""
        return f"{self.file}{place}: {named}{self.message}"


class SpecError(InputError):
    """Everything that is wrong with a specification, in the order of the file."""

    def __init__(self, problems: Sequence[SpecProblem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.line, p.column, p.field)))
        super().__init__("\n".join(map(str, self.problems)))


class Document:
    """The values of a YAML file, and the place of each.

    >>> document = Document("spec.yaml", "workers: 4\\nqueries:\\n  a: SELECT 1\\n")
    >>> document.value["workers"], str(document.problem_at(("queries", "a"), "is odd"))
    (4, 'spec.yaml:3:6: queries.a: is odd')
    """

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self._overrides: dict[FieldPath, str] = {}
        try:
            self._root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            found = f"this is no YAML: {error.problem}"
            raise SpecError([SpecProblem(file, line, column, "", found)]) from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            found = f"the character #x{error.character:x} cannot stand in YAML"
            raise SpecError([SpecProblem(file, line, 1, "", found)]) from None
        if not isinstance(self._root, yaml.MappingNode):
            found = "expected `name: value` lines, found none; see `evenflow init`"
            raise SpecError([SpecProblem(file, 1, 1, "", found)])
        try:
            self._check_duplicate_keys(self._root, ())
        except RecursionError:
            found = "an alias (*name) contains itself; write the value out"
            raise SpecError([SpecProblem(file, 1, 1, "", found)]) from None
        loader = yaml.SafeLoader("")
        self.value: Any = loader.construct_document(self._root)

    def problem_at(self, where: FieldPath, message: str, *, at_key: bool = False) -> SpecProblem:
        """Name what is wrong with a field; one that is missing stands where its parent does."""
        field = dotted_path(where)
        for path, origin in self._overrides.items():
            if where[: len(path)] == path[: len(where)]:
                return SpecProblem(origin, 0, 0, field, message)
        node, key = self._root, self._root
        for part in where:
            below = _child_node(node, part)
            if below is None:
                break
            key, node = below
        mark = (key if at_key else node).start_mark
        return SpecProblem(self.file, mark.line + 1, mark.column + 1, field, message)

    def override(self, assignment: str) -> None:
        """Set a field by its dotted path: `--set workers=2`, the value in YAML."""
        path, equals, written = assignment.partition("=")
        origin = f"--set {assignment}"
        where = tuple(int(p) if p.isdigit() else p for p in path.strip().split("."))
        if not equals or not all(str(part) for part in where):
            raise InputError(f"got --set {assignment!r}; write --set workers=4 or a.b.c=value")
        try:
            value = yaml.safe_load(written)
        except yaml.YAMLError:
            raise InputError(f"{origin}: the value is no YAML; quote it") from None
        _set_value(self.value, where, value, origin)
        self._overrides[where] = origin

    def substitute_variables(self) -> list[SpecProblem]:
        """Replace `${NAME}` and `${NAME:-default}` by the environment; return what is not set."""
        problems: list[SpecProblem] = []
        self.value = self._substitute(self.value, (), problems)
        return problems

    def _substitute(self, value: Any, where: FieldPath, problems: list[SpecProblem]) -> Any:
        if isinstance(value, dict):
            return {k: self._substitute(v, (*where, k), problems) for k, v in value.items()}
        if isinstance(value, list):
            return [self._substitute(v, (*where, at), problems) for at, v in enumerate(value)]
        if not isinstance(value, str):
            return value

        def replaced(match: re.Match[str]) -> str:
            name, default = str(match[1]), match.group(2)
            found: str | None = os.environ.get(name, default)
            if found is None:
                message = f"the environment has no {name}; set it, or write ${{{name}:-default}}"
                problems.append(self.problem_at(where, message))
                return ""
            return found

        return _VARIABLE.sub(replaced, value)

    def _check_duplicate_keys(self, node: Any, where: FieldPath) -> None:
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                name = str(key.value)
                if name in seen:
                    mark = key.start_mark
                    message = "stands here twice; keep one"
                    place = (self.file, mark.line + 1, mark.column + 1, dotted_path((*where, name)))
                    raise SpecError([SpecProblem(*place, message)])
                seen.add(name)
                self._check_duplicate_keys(value, (*where, name))
        elif isinstance(node, yaml.SequenceNode):
            for at, value in enumerate(node.value):
                self._check_duplicate_keys(value, (*where, at))


def dotted_path(where: FieldPath) -> str:
    """Write a path as `--set` takes it.

    >>> dotted_path(("sinks", "out", "queries", 0))
    'sinks.out.queries.0'
    """
    return ".".join(map(str, where))


def _child_node(node: Any, part: str | int) -> tuple[Any, Any] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((k, v) for k, v in node.value if str(k.value) == str(part)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None


def _set_value(value: Any, where: FieldPath, new: Any, origin: str) -> None:
    for at, part in enumerate(where):
        if isinstance(value, list):
            if not isinstance(part, int) or part >= len(value):
                raise InputError(
                    f"{origin}: {dotted_path(where[:at])} has entries 0..{len(value) - 1}"
                )
        elif not isinstance(value, dict):
            raise InputError(f"{origin}: {dotted_path(where[:at])} has no fields below it")
        else:
            part = next((key for key in value if str(key) == str(part)), part)  # noqa: PLW2901
        if at == len(where) - 1:
            value[part] = new
        elif isinstance(value, dict):
            if value.get(part) is None:
                value[part] = {}
            value = value[part]
        else:
            value = value[part]
