"""From a file to a checked specification."""

import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from evenflow.errors import InputError
from evenflow.spec.check import CheckedSpec, SpecChecker
from evenflow.spec.complaints import problems_from_pydantic
from evenflow.spec.document import Document, SpecError
from evenflow.spec.models import Spec


def load_spec(path: Path, overrides: Sequence[str] = ()) -> CheckedSpec:
    """Read a specification, set `overrides` (`dotted.path=value`), check it as a whole."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    document = Document(str(path), text)
    for assignment in overrides:
        document.override(assignment)
    problems = document.substitute_variables()
    if problems:
        raise SpecError(problems)
    try:
        spec = Spec.model_validate(document.value)
    except ValidationError as error:
        raise SpecError(problems_from_pydantic(error, document, Spec)) from None
    folder = path.resolve().parent
    # Operators may stand in a module beside the file.
    if spec.operators and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    checker = SpecChecker(document, spec, folder)
    checked = checker.check()
    if checker.problems:
        raise SpecError(checker.problems)
    return checked
