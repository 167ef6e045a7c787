"""A YAML file as plain values with the position of each, and the problems found in it."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml

from evenflow.display import hide_value, printable
from evenflow.errors import InputError

FieldPath = tuple[str | int, ...]
MAX_FILE_BYTES = 1 << 20
_MAX_NODES, _MAX_DEPTH = 100_000, 64
_TOO_DEEP = f"values are nested deeper than {_MAX_DEPTH} levels; write them flat"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """An error in one field of a file; lines and columns count from 1.

    For a field set with `--set`, `file` is that option and `line` is 0.
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
    """All problems of a specification, in the order of the file."""

    def __init__(self, problems: Sequence[SpecProblem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.line, p.column, p.field)))
        super().__init__("\n".join(map(str, self.problems)))


class Document:
    """The values of a YAML file, and the position of each.

    >>> document = Document("spec.yaml", "workers: 4\\nqueries:\\n  a: SELECT 1\\n")
    >>> document.value["workers"], str(document.problem_at(("queries", "a"), "is odd"))
    (4, 'spec.yaml:3:6: queries.a: is odd')
    """

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self._overrides: dict[FieldPath, str] = {}
        self._root: Any = self._compose(text)
        if not isinstance(self._root, yaml.MappingNode):
            message = "expected `name: value` lines; `evenflow init` writes an example"
            raise SpecError([SpecProblem(file, 1, 1, "", message)])
        self._check_size()
        self._check_duplicate_keys(self._root, ())
        try:
            self.value: Any = yaml.SafeLoader("").construct_document(self._root)
        except yaml.MarkedYAMLError as error:
            raise self._invalid(error) from None
        except (ValueError, OverflowError) as error:
            message = f"not valid YAML: {error}; quote the value"
            raise SpecError([SpecProblem(file, 1, 1, "", message)]) from None
        self._written = self.value  # before variables are replaced

    def _compose(self, text: str) -> Any:
        try:
            return yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            raise self._invalid(error) from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            message = f"YAML does not allow the character #x{error.character:x}; remove it"
            raise SpecError([SpecProblem(self.file, line, 1, "", message)]) from None
        except RecursionError:
            raise SpecError([SpecProblem(self.file, 1, 1, "", _TOO_DEEP)]) from None

    def _invalid(self, error: yaml.MarkedYAMLError) -> "SpecError":
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        message = printable(f"not valid YAML: {error.problem}")
        return SpecError([SpecProblem(self.file, line, column, "", message)])

    def _check_size(self) -> None:
        """Refuse a file whose aliases expand to too many values, before anything expands them."""
        sizes: dict[int, tuple[int, int]] = {}  # of a node and all below: values, levels

        def measure(node: Any) -> tuple[int, int]:
            found = sizes.get(id(node))
            if found is None:
                sizes[id(node)] = (_MAX_NODES + 1, 0)  # while it is measured: it contains itself
                below = [measure(child) for child in _children(node)]
                found = (1 + sum(n for n, _ in below), 1 + max((d for _, d in below), default=0))
                sizes[id(node)] = found
            mark = node.start_mark
            if found[0] > _MAX_NODES or found[1] > _MAX_DEPTH:
                message = _TOO_DEEP
                if found[0] > _MAX_NODES:
                    message = (
                        f"with its aliases (*name) it has more than {_MAX_NODES:,} values, or "
                        "contains itself; put large tables into files"
                    )
                place = (self.file, mark.line + 1, mark.column + 1, "", message)
                raise SpecError([SpecProblem(*place)])
            return found

        measure(self._root)

    def problem_at(self, where: FieldPath, message: str, *, at_key: bool = False) -> SpecProblem:
        """Return a problem at the position of a field, or of its parent if the field is missing."""
        field, message = printable(dotted_path(where)), printable(message)
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

    def written_at(self, where: FieldPath, default: Any) -> Any:
        """Return a value as the file has it, with `${NAME}` in place of what the variable holds."""
        value: Any = self._written
        for part in where:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return default
        return value

    def override(self, assignment: str) -> None:
        """Set a field by its dotted path: `--set workers=2`, the value in YAML."""
        path, equals, value_text = assignment.partition("=")
        origin = f"--set {assignment}"
        where = tuple(int(p) if p.isdigit() else p for p in path.strip().split("."))
        if not equals or not all(str(part) for part in where):
            raise InputError(f"--set needs FIELD=VALUE, such as workers=4, got {assignment!r}")
        try:
            value = yaml.safe_load(value_text)
        except yaml.YAMLError:
            raise InputError(f"{origin}: the value is not valid YAML; quote it") from None
        _set_value(self.value, where, value, origin)
        self._overrides[where] = origin

    def substitute_variables(self) -> list[SpecProblem]:
        """Replace `${NAME}` and `${NAME:-default}` by the environment; return unset variables."""
        problems: list[SpecProblem] = []
        self.value = self._substitute(self.value, (), problems)
        return problems

    def _substitute(self, value: Any, where: FieldPath, problems: list[SpecProblem]) -> Any:
        if isinstance(value, dict):
            return {k: self._substitute(v, (*where, k), problems) for k, v in value.items()}
        if isinstance(value, list):
            return [self._substitute(v, (*where, i), problems) for i, v in enumerate(value)]
        if not isinstance(value, str):
            return value

        def replaced(match: re.Match[str]) -> str:
            name, default = str(match[1]), match.group(2)
            text: str | None = os.environ.get(name)
            if text is not None:
                hide_value(text, f"${{{name}}}")
            text = default if text is None else text
            if text is None:
                message = f"environment variable {name} is not set; set it or write"
                problems.append(self.problem_at(where, f"{message} ${{{name}:-default}}"))
            return text or ""

        return _VARIABLE.sub(replaced, value)

    def _check_duplicate_keys(self, node: Any, where: FieldPath) -> None:
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                name = str(key.value)
                if name in seen:
                    mark = key.start_mark
                    message = "is given twice; keep one"
                    place = (self.file, mark.line + 1, mark.column + 1, dotted_path((*where, name)))
                    raise SpecError([SpecProblem(*place, message)])
                seen.add(name)
                self._check_duplicate_keys(value, (*where, name))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                self._check_duplicate_keys(value, (*where, index))


@dataclass(slots=True)
class ProblemLog:
    """Collects the problems of a document, to report all of them at once."""

    document: Document
    problems: list[SpecProblem] = field(default_factory=list)

    def add(self, where: FieldPath, message: str) -> None:
        """Add a problem of a field."""
        self.problems.append(self.document.problem_at(where, message))

    @contextmanager
    def at(self, *where: str | int) -> Iterator[None]:
        """Turn an InputError raised inside into a problem of this field."""
        try:
            yield
        except InputError as error:
            self.add(where, str(error))


def dotted_path(where: FieldPath) -> str:
    """Return a path as `--set` takes it.

    >>> dotted_path(("sinks", "out", "queries", 0))
    'sinks.out.queries.0'
    """
    return ".".join(map(str, where))


def _children(node: Any) -> list[Any]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _child_node(node: Any, part: str | int) -> tuple[Any, Any] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((k, v) for k, v in node.value if str(k.value) == str(part)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None


def _set_value(value: Any, where: FieldPath, new: Any, origin: str) -> None:
    for depth, part in enumerate(where):
        parent = dotted_path(where[:depth])
        if isinstance(value, list):
            if not isinstance(part, int) or part >= len(value):
                raise InputError(f"{origin}: {parent} has the entries 0..{len(value) - 1}")
        elif not isinstance(value, dict):
            raise InputError(f"{origin}: {parent} is a single value and has no fields")
        else:
            part = next((key for key in value if str(key) == str(part)), part)  # noqa: PLW2901
        if depth == len(where) - 1:
            value[part] = new
            return
        if isinstance(value, dict) and value.get(part) is None:
            value[part] = {}
        value = value[part]
