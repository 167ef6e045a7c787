"""Aliases and positions of SELECT that GROUP BY and HAVING use in place of expressions."""

from sqlglot import exp

from evenflow.errors import InputError, shorten
from evenflow.sql.compile.context import CompileContext
from evenflow.sql.translate.translator import Translator
from evenflow.sql.translate.typed_expr import Ast


class SelectAliases:
    """The aliases of one SELECT that are not columns of FROM."""

    def __init__(
        self, context: CompileContext, expressions: list[Ast], translate: Translator
    ) -> None:
        self._context = context
        self._expressions = expressions
        self._by_alias = {
            e.alias.lower(): e.this
            for e in expressions
            if isinstance(e, exp.Alias)
            and not any(relation.find(e.alias) for relation in translate.inputs.values())
        }
        self._sizes: dict[str, int] = {}  # alias -> nodes of its expression

    def group_item(self, node: Ast) -> Ast:
        """Replace GROUP BY 1 and GROUP BY alias by the expression of SELECT."""
        if isinstance(node, exp.Literal) and not node.is_string:
            text = str(node.this)
            index = int(text) - 1 if text.isdigit() and len(text) < 9 else -1
            if not 0 <= index < len(self._expressions):
                given, columns = shorten(text, 40), len(self._expressions)
                raise InputError(f"GROUP BY {given}: SELECT has {columns} columns")
            item = self._expressions[index]
            return item.this if isinstance(item, exp.Alias) else item
        return self.replace_in(node)

    def replace_in(self, node: Ast) -> Ast:
        """Replace aliases by their expressions."""
        if (whole := self._find(node)) is not None:
            return whole
        return node.copy().transform(self._replace)

    def _replace(self, part: Ast) -> Ast:
        expression = self._find(part)
        if expression is None:
            return part
        name = part.name.lower()
        if name not in self._sizes:
            self._sizes[name] = sum(1 for _ in expression.walk())
        self._context.count_copied_nodes(self._sizes[name])
        return exp.Paren(this=expression.copy())

    def _find(self, node: Ast) -> Ast | None:
        if isinstance(node, exp.Column) and not node.table:
            return self._by_alias.get(node.name.lower())
        return None
