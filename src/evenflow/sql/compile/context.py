"""State that is shared while the parts of one query are compiled."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from evenflow.errors import InputError
from evenflow.sql.catalog import Catalog
from evenflow.sql.query_plan import PlanNode
from evenflow.sql.translate.translator import ParameterTypes
from evenflow.sql.translate.typed_expr import Ast

MAX_INPUTS = 64

# The queries of WITH by lower-case name, each with the names that are known inside it.
CteScope = Mapping[str, tuple[Ast, "CteScope"]]


@dataclass
class CompileContext(ABC):
    """What the clauses of one query share; it lives for one compilation.

    `parameters` are those of a template, `reads` the columns of each stream that the query uses.
    Node ids are part of the saved state: the order in which they are taken must never change.
    """

    catalog: Catalog
    parameters: ParameterTypes | None = None
    node_ids: "count[int]" = field(default_factory=count)
    input_count: int = 0
    reads: dict[str, set[str]] = field(default_factory=dict)

    @abstractmethod
    def compile(self, query: Ast, ctes: CteScope, *, drop_late: bool) -> PlanNode:
        """Compile a query or a subquery; `drop_late` drops late rows of its streams."""

    def count_inputs(self, inputs: int) -> None:
        """Count inputs; a subquery that is read twice counts twice, so nesting cannot explode."""
        self.input_count += inputs
        if self.input_count > MAX_INPUTS:
            raise InputError(f"the query reads more than {MAX_INPUTS} relations; split it")
