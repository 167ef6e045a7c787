"""State that is shared while the parts of one query are compiled."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from evenflow.errors import InputError
from evenflow.sql.catalog import Catalog
from evenflow.sql.query_plan import PlanNode
from evenflow.sql.translate.translator import (
    ParameterTypes,
    TextBudget,
    TranslationMemo,
    UserFunctions,
)
from evenflow.sql.translate.typed_expr import Ast

MAX_INPUTS = 64  # of a query
MAX_JOINED_STREAMS = 16  # of one SELECT
MAX_COPIED_NODES = 10_000  # of the syntax tree, where aliases of SELECT are replaced

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
    text_budget: TextBudget = field(default_factory=TextBudget)
    copied_nodes: int = 0
    functions: UserFunctions = field(init=False)

    def __post_init__(self) -> None:
        self.functions = UserFunctions(self.catalog.functions)

    def new_memo(self) -> TranslationMemo:
        """Return what a translator of this query needs to share with the others."""
        return TranslationMemo(self.text_budget, self.functions)

    @abstractmethod
    def compile(self, query: Ast, ctes: CteScope, *, drop_late: bool) -> PlanNode:
        """Compile a query or a subquery; `drop_late` drops late rows of its streams."""

    def refuse_template(self, what: str) -> None:
        """Refuse what mixes the rows of different subscriptions."""
        if self.parameters is not None:
            raise InputError(f"a template cannot have {what}; write a query without parameters")

    def count_copied_nodes(self, nodes: int) -> None:
        """Count the nodes that replace an alias of SELECT, each time it is used."""
        self.copied_nodes += nodes
        if self.copied_nodes > MAX_COPIED_NODES:
            raise InputError(
                "aliases of SELECT stand for too much in GROUP BY and HAVING; "
                "compute them in a subquery"
            )

    def count_inputs(self, inputs: int) -> None:
        """Count inputs; a subquery that is read twice counts twice, so nesting cannot explode."""
        self.input_count += inputs
        if self.input_count > MAX_INPUTS:
            raise InputError(f"the query reads more than {MAX_INPUTS} relations; split it")
