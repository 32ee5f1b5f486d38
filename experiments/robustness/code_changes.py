"""Small wrong changes of a module, found and applied on its syntax tree.

Left alone are docstrings and other texts, annotations and imports; and, by judgement, what is a
choice and no error when it changes: decorators (``frozen=True``), defaults of fields and constants
of a module (a tolerance, a number of sweeps).
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Callable, Iterator

_COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_EXTREMES = {"max": "min", "min": "max", "argmax": "argmin", "argmin": "argmax"}
_BOUNDS = ("maximum", "minimum", "clip", "max", "min")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One wrong change.

    Attributes:
        file: the module, from the root of the clone.
        number: its place among the module's changes.
        line: line of the change.
        change: what stood there, and what stands there now.
    """

    file: str
    number: int
    line: int
    change: str


def mutants(source: str, file: str) -> list[Mutant]:
    """All changes of a module, in the order of the tree."""
    found = []
    for number, (node, change) in enumerate(_changes(ast.parse(source))):
        before = ast.unparse(node)
        changed = copy.deepcopy(node)
        after = ast.unparse(change(changed))
        found.append(Mutant(file, number, node.lineno, f"{before} -> {after}"))
    return found


def apply(source: str, number: int) -> str:
    """The source with change ``number`` applied, without comments and formatting."""
    tree = ast.parse(source)
    node, change = list(_changes(tree))[number]
    changed = change(copy.deepcopy(node))
    return ast.unparse(ast.fix_missing_locations(_Replace(node, changed).visit(tree)))


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else super().generic_visit(node)


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr, Callable[[ast.expr], ast.expr]]]:
    for node in _code(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE:
            yield node, _swap_comparison
        elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            yield node, _swap_arithmetic
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert | ast.USub):
            yield node, lambda n: n.operand  # type: ignore[attr-defined]
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            yield node, _change_constant
        elif isinstance(node, ast.IfExp):
            yield node, _negate
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in _BOUNDS and len(node.args) >= 2:
                yield node, lambda n: n.args[0]  # type: ignore[attr-defined]
            elif node.func.attr in _EXTREMES:
                yield node, _swap_extreme


def _code(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions that compute: no strings, annotations, imports or settings."""
    for name, field in ast.iter_fields(node):
        skipped = name in ("annotation", "returns", "type_params", "decorator_list")
        if skipped or isinstance(node, ast.JoinedStr):
            continue
        for child in field if isinstance(field, list) else [field]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Import | ast.ImportFrom):
                continue
            is_setting = isinstance(child, ast.Assign | ast.AnnAssign)
            if is_setting and isinstance(node, ast.ClassDef | ast.Module):
                continue
            if isinstance(child, ast.expr):
                yield child
            yield from _code(child)


def _swap_comparison(node: ast.expr) -> ast.expr:
    assert isinstance(node, ast.Compare)  # noqa: S101 - by _changes
    node.ops[0] = _COMPARE[type(node.ops[0])]()
    return node


def _swap_arithmetic(node: ast.expr) -> ast.expr:
    assert isinstance(node, ast.BinOp)  # noqa: S101 - by _changes
    node.op = _ARITHMETIC[type(node.op)]()
    return node


def _change_constant(node: ast.expr) -> ast.expr:
    assert isinstance(node, ast.Constant)  # noqa: S101 - by _changes
    value = node.value
    assert isinstance(value, bool | int | float)  # noqa: S101 - by _changes
    if isinstance(value, bool):
        node.value = not value
    else:
        node.value = value + 1 if isinstance(value, int) or value == 0 else 2 * value
    return node


def _negate(node: ast.expr) -> ast.expr:
    assert isinstance(node, ast.IfExp)  # noqa: S101 - by _changes
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return node


def _swap_extreme(node: ast.expr) -> ast.expr:
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)  # noqa: S101
    node.func.attr = _EXTREMES[node.func.attr]
    return node
