"""The mutations that `mutants.py` tries: small mistakes, made in the source text at a syntax node."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["Mutant", "find_mutants"]

_COMPARE = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
_BINARY = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "/",
    ast.Mod: "*",
    ast.Pow: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}
_NAMES = {
    "min": "max",
    "minimum": "maximum",
    "argmin": "argmax",
    "any": "all",
    "floor": "ceil",
    "zeros": "ones",
    "zeros_like": "ones_like",
}
_NAMES |= {other: name for name, other in _NAMES.items()}
#: What only says something, or checks something that holds
_QUIET_CALLS = {"warn", "print", "cast", "TypeVar", "super", "simplefilter", "filterwarnings"}
#: Whose arguments may stand in any order, or fail at once in another
_NOT_SWAPPED = {"min", "max", "minimum", "maximum", "isinstance", "issubclass", "getattr", "hasattr"}
#: Checks, or names for readers: without them nothing changes as long as the code is right
_QUIET_KEYWORDS = {"strict", "stacklevel", "name", "slots"}
#: Of what a module or a class does when it is imported
_EVERY_LINE = range(1, 1_000_000)


@dataclass(frozen=True)
class Mutant:
    """
    One change of one file, as the bytes from ``start`` to ``stop`` that ``text`` replaces. A test that runs one of the
    lines in ``reach`` may notice it.
    """

    id: str
    path: str
    line: int
    reach: range
    kind: str
    start: int
    stop: int
    text: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.stop :]

    def compiles(self, source: bytes) -> bool:
        try:
            compile(self.apply(source), self.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
        return True


def find_mutants(root: Path, path: str) -> list[Mutant]:
    """
    :param root: the project's folder
    :param path: a Python file, relative to it
    :return: its mutants; their ids stay when other lines of the file change
    """
    source = (root / path).read_bytes()
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    seen: Counter[str] = Counter()
    mutants = []
    for mutant, place in finder.found:
        kind, start, stop = mutant.kind, mutant.start, mutant.stop
        mutated = mutant.apply(source)
        if mutated == source:
            continue
        begin, end = source.rfind(b"\n", 0, start) + 1, source.find(b"\n", stop)
        changed = mutated[begin : end + len(mutated) - len(source)]
        mark = f"{path} {place} {kind} {source[begin:end]!r} {changed!r}"
        seen[mark] += 1
        identity = hashlib.sha1(f"{mark} {seen[mark]}".encode()).hexdigest()[:10]
        mutants.append(replace(mutant, id=identity, path=path))
    return mutants


class _Finder(ast.NodeVisitor):
    def __init__(self, source: bytes) -> None:
        self.found: list[tuple[Mutant, str]] = []
        self._reach = _EVERY_LINE
        self._source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._place: list[str] = []

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, (ast.expr, ast.stmt, ast.keyword))
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.AST) -> str:
        start, stop = self._span(node)
        return self._source[start:stop].decode()

    def _add(self, kind: str, node: ast.AST, text: str, span: tuple[int, int] | None = None) -> None:
        start, stop = span or self._span(node)
        mutant = Mutant("", "", getattr(node, "lineno", 0), self._reach, kind, start, stop, text)
        self.found.append((mutant, ".".join(self._place)))

    def _between(self, kind: str, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Replace an operator between two operands, which may stand in brackets."""
        start, stop = self._span(left)[1], self._span(right)[0]
        offset = self._source[start:stop].decode().find(old)
        if offset >= 0:
            self._add(kind, left, new, (start + offset, start + offset + len(old)))

    def visit(self, node: ast.AST) -> None:
        before = self._reach
        if isinstance(node, ast.stmt) and before is not _EVERY_LINE:
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            self._reach = range(node.lineno, max(last, node.lineno) + 1)
        super().visit(node)
        self._reach = before

    # What is left alone

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._delete_if_state(node, [node.target])
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._place.append(node.name)
        self._reach = range(node.body[0].lineno, (node.end_lineno or 0) + 1)
        for part in [*node.args.defaults, *(default for default in node.args.kw_defaults if default), *node.body]:
            self.visit(part)
        self._place.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._place.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._place.pop()

    # Statements

    def visit_Assign(self, node: ast.Assign) -> None:
        if not self._place and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            return
        self._delete_if_state(node, node.targets)
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        old = {ast.Add: "+=", ast.Sub: "-=", ast.Mult: "*=", ast.Div: "/="}.get(type(node.op))
        if old is not None and not _is_text(node.value) and not isinstance(node.value, (ast.List, ast.ListComp)):
            new = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="}[old]
            self._between("augmented", node.target, node.value, old, new)
        self._add("delete", node, "pass")
        self.visit(node.value)

    def _delete_if_state(self, node: ast.stmt, targets: list[ast.expr]) -> None:
        if all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in targets):
            self._add("delete", node, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._add("delete", node, "pass")
            self.visit(node.value)
        elif not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add("delete", node, "pass")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._add("return", node, "return None")
            self.visit(node.value)

    def visit_Break(self, node: ast.Break) -> None:
        self._add("jump", node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add("jump", node, "break")

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        if not isinstance(test, ast.UnaryOp):  # whose `not` is a mutation of its own
            self._add("condition", test, f"not ({self._text(test)})")

    # Expressions

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            start, stop = self._span(left)[1], self._span(right)[0]
            gap = self._source[start:stop].decode()
            # Brackets around the operands stay
            old = gap.strip("() \n\\\t")
            for new in _COMPARE[type(operator)]:
                self._add("compare", left, gap.replace(old, new, 1), (start, stop))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between("boolean", left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, (ast.Not, ast.USub)):
            self._add("unary", node, f"({self._text(node.operand)})")
        self.visit(node.operand)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if _is_text(node.left) or _is_text(node.right):
            return
        old = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
               ast.BitAnd: "&", ast.BitOr: "|"}.get(type(node.op))  # fmt: skip
        if old is not None:
            self._between("arithmetic", node.left, node.right, old, _BINARY[type(node.op)])
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add("constant", node, str(not value))
        elif isinstance(value, int):
            self._add("constant", node, str(value + 1))
            if value:
                self._add("constant", node, str(value - 1))
        elif isinstance(value, float):
            self._add("constant", node, repr(value + 1))
            if abs(value) > 1e-3:  # twice the guard against a division by zero is as good a guard
                self._add("constant", node, repr(value * 2))

    def visit_Dict(self, node: ast.Dict) -> None:
        if node.keys.count(None) and len(node.values) > 1:
            items = [
                f"**{self._text(value)}" if key is None else f"{self._text(key)}: {self._text(value)}"
                for key, value in zip(node.keys, node.values, strict=True)
            ]
            self._add("merge", node, f"{{{', '.join(reversed(items))}}}")
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in _NAMES and isinstance(node.ctx, ast.Load):
            self._add("name", node, _NAMES[node.id])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in _NAMES and isinstance(node.ctx, ast.Load):
            stop = self._span(node)[1]
            self._add("name", node, _NAMES[node.attr], (stop - len(node.attr), stop))
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in _QUIET_CALLS:
            return
        plain = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
        if len(plain) > 1 and plain == node.args and called not in _NOT_SWAPPED:
            first, second = self._span(plain[0]), self._span(plain[1])
            between = self._source[first[1] : second[0]].decode()
            swapped = f"{self._text(plain[1])}{between}{self._text(plain[0])}"
            self._add("swap", node, swapped, (first[0], second[1]))
        for keyword in _removable(node):
            start, stop = self._span(keyword)
            after = self._source[stop:].decode(errors="ignore")
            if after.startswith(", "):
                stop += 2
            self._add("keyword", keyword, "", (start, stop))
        self.generic_visit(node)


def _removable(node: ast.Call) -> Iterator[ast.keyword]:
    return (keyword for keyword in node.keywords if keyword.arg not in (None, *_QUIET_KEYWORDS))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
