"""Compiles the three forms in which queries are declared."""

from collections.abc import Sequence

from evenflow.model.codes import QueryForm
from evenflow.sql.catalog import Catalog
from evenflow.sql.operator_program import OperatorProgram, compile_operator
from evenflow.sql.program import KeyArgument, Program, compile_query, compile_template
from evenflow.sql.python_operator import import_operator

CompiledQuery = Program | OperatorProgram


def compile_definition(
    form: str,
    name: str,
    text: str,
    catalog: Catalog,
    *,
    key: KeyArgument | None,
    over: Sequence[str] = (),
) -> CompiledQuery:
    """Compile a query, a template or an operator over some streams; InputError if it is invalid."""
    if form == QueryForm.QUERY:
        return compile_query(name, text, catalog, key=key)
    if form == QueryForm.TEMPLATE:
        return compile_template(name, text, catalog, key=key)
    return compile_operator(name, import_operator(text), over, catalog, key=key)
