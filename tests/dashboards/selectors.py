"""The selectors of a query in PromQL, and what is done with each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

import promql_parser as promql

from dashboards.build.variables import filled, variables_in

FOLLOWING = timedelta(seconds=4321)
"""A window that follows the range, unlike every fixed one."""

_GRAFANAS = {"__rate_interval": "4321s", "__interval": "4321s"}


@dataclass(frozen=True, slots=True)
class Selector:
    """A selector. Its matchers hold variables as ``$name``; *around* goes from the inside out."""

    name: str
    matchers: Mapping[str, str]
    window: timedelta | None
    around: tuple[promql.Expr, ...]

    @property
    def function(self) -> str:
        """What is done with its window."""
        inner = self.around[1] if len(self.around) > 1 else None
        return inner.func.name if isinstance(inner, promql.Call) and self.window else ""

    @property
    def is_merged(self) -> bool:
        """Whether replicas are made one before anything is summed."""
        sums = (expr for expr in self.around if isinstance(expr, promql.AggregateExpr))
        first = next(sums, None)
        if first is None or str(first.op) != "max" or first.modifier is None:
            return False
        excluded = first.modifier.type == promql.AggModifierType.Without
        labels = set(first.modifier.labels)
        return {"instance", "pod"} <= labels if excluded else not {"instance", "pod"} & labels


def selectors(text: str) -> list[Selector]:
    """Return the selectors of a query, whose variables stand for themselves."""
    names = variables_in(text)
    values = {name: f"${name}" for name in names} | _GRAFANAS
    return list(_within(promql.parse(filled(text, values)), ()))


def _within(expr: promql.Expr, around: tuple[promql.Expr, ...]) -> Iterator[Selector]:
    if isinstance(expr, promql.VectorSelector):
        window = (
            around[0].range if around and isinstance(around[0], promql.MatrixSelector) else None
        )
        matchers = {matcher.name: matcher.value for matcher in expr.matchers.matchers}
        yield Selector(expr.name or "", matchers, window, around)
        return
    for inner in _inside(expr):
        yield from _within(inner, (expr, *around))


def _inside(expr: promql.Expr) -> list[promql.Expr]:
    match expr:
        case promql.BinaryExpr():
            return [expr.lhs, expr.rhs]
        case promql.MatrixSelector():
            return [expr.vector_selector]
        case promql.Call():
            return list(expr.args)
        case promql.NumberLiteral() | promql.StringLiteral():
            return []
        case promql.AggregateExpr() | promql.UnaryExpr() | promql.ParenExpr():
            return [expr.expr]
        case _:
            raise TypeError(f"{type(expr).__name__} is not known here")
