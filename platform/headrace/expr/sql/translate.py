"""sqlglot's tree to typed terms, node kind by node kind. A kind that is not handled here is not part of the
language."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import polars as pl
from sqlglot import exp

from headrace.core.errors import ExpressionError, did_you_mean
from headrace.core.types import TIMESTAMP, Primitive, Timestamp
from headrace.expr.aggregates.table import AGGREGATES
from headrace.expr.functions.table import FORMS, FUNCTIONS, element_of, join_strings
from headrace.expr.functions.temporal import part
from headrace.expr.scope import Scope, field_of
from headrace.expr.sql.other_dialects import FOREIGN_NAMES, FOREIGN_OPERATORS
from headrace.expr.sql.parse import offset_of
from headrace.expr.terms import comparison, conditional
from headrace.expr.terms.arithmetic import arithmetic, negate
from headrace.expr.terms.cast import cast, target_type
from headrace.expr.terms.coercion import INT64_MAX, is_time
from headrace.expr.terms.pattern import like
from headrace.expr.terms.term import NULL, Term, combine, literal
from headrace.expr.terms.timestamps import parse_interval, shift, shift_days

_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
}
_COMPARISON: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_REFUSED: dict[type[exp.Expr], tuple[str, str | None]] = {
    exp.Window: ("window functions (over ..) are not part of expressions", "use a step with key_by and window"),
    exp.Select: ("a subquery is not an expression", "use steps: each one takes from the one before"),
    exp.Subquery: ("a subquery is not an expression", "use steps: each one takes from the one before"),
    exp.Exists: ("a subquery is not an expression", "use steps: each one takes from the one before"),
    exp.Star: ("`*` stands only in count(*)", "name the columns"),
    exp.Placeholder: ("parameters are not part of expressions", "use ${VAR} in the pipeline file"),
    exp.Parameter: ("parameters are not part of expressions", "use ${VAR} in the pipeline file"),
    exp.Alias: ("an expression takes no alias", "the name stands before the colon: `name: expression`"),
    exp.Distinct: ("distinct stands only inside an aggregate call", None),
    exp.Order: ("order by is not part of expressions", None),
    exp.Filter: ("filter (where ..) belongs to an aggregate call", "use it in the aggregate of a step"),
    exp.DataType: ("this reads as the name of a type", "put a column's name in double quotes"),
    exp.Lambda: ("functions of elements (x -> ..) are not part of expressions", "use explode or map"),
}


class Translator:
    """Translates one expression to terms. `aggregate`, if set, translates the calls of aggregate functions."""

    def __init__(self, scope: Scope, aggregate: Callable[[exp.Expr], Term] | None = None) -> None:
        self._scope = scope
        self._aggregate = aggregate

    def term(self, node: exp.Expr) -> Term:
        """The term of a node. Errors carry the offset of the innermost faulty node."""
        try:
            return self._term(node)
        except ExpressionError as error:
            if error.offset is None:
                error.offset = offset_of(node)
            raise

    def _term(self, node: exp.Expr) -> Term:
        kind = type(node)
        if kind in _ARITHMETIC:
            return self._binary(_ARITHMETIC[kind], self.term(node.this), self.term(node.expression))
        if kind in _COMPARISON:
            return comparison.compare(_COMPARISON[kind], self.term(node.this), self.term(node.expression))
        for refused, (message, remedy) in (_REFUSED | FOREIGN_OPERATORS).items():
            if isinstance(node, refused) and not (self._aggregate and isinstance(node, exp.Filter)):
                raise ExpressionError(message, remedy=remedy)
        found = self._leaf(node) or self._logic(node) or self._branching(node) or self._compound(node)
        if found is None:
            text = node.sql(dialect="duckdb")
            raise ExpressionError(f"{text!r} is not part of expressions ({kind.__name__.lower()})")
        return found

    def _leaf(self, node: exp.Expr) -> Term | None:
        match node:
            case exp.Column():
                if isinstance(node.this, exp.Star):
                    raise ExpressionError("`*` stands only in count(*)", remedy="name the columns")
                names = [part.name for part in node.parts]
                if len(names) == 1 and node.this.args.get("quoted") and not self._scope.has(names[0]):
                    text = names[0].replace("'", "''")
                    remedy = f"double quotes name a column; text goes in single quotes: '{text}'"
                    raise ExpressionError(f"there is no column {names[0]!r}", remedy=remedy)
                return self._scope.path(names)
            case exp.Null():
                return NULL
            case exp.Boolean():
                return literal(bool(node.this), Primitive.BOOL)
            case exp.Literal():
                return _literal(node)
            case exp.Paren():
                return self.term(node.this)
            case exp.Interval():
                return _interval(node)
            case _:
                return None

    def _logic(self, node: exp.Expr) -> Term | None:
        match node:
            case exp.And():
                return self._chain(node, exp.And, comparison.both)
            case exp.Or():
                return self._chain(node, exp.Or, comparison.any_of)
            case exp.Not():
                return comparison.invert(self.term(node.this))
            case exp.Is():
                return self._is(node)
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                one, two = self.term(node.this), self.term(node.expression)
                return comparison.distinct_from(one, two, negate=isinstance(node, exp.NullSafeEQ))
            case exp.Between():
                low, high = node.args["low"], node.args["high"]
                return self._negatable(node, comparison.between(*map(self.term, (node.this, low, high))))
            case exp.In():
                return self._negatable(node, self._in(node))
            case exp.Like() | exp.ILike():
                return self._like(node, None)
            case exp.Escape():
                return self._escaped(node)
            case _:
                return None

    def _branching(self, node: exp.Expr) -> Term | None:
        match node:
            case exp.Case():
                return self._case(node)
            case exp.If():
                parts = [node.this, node.args["true"], *filter(None, [node.args.get("false")])]
                return self._call("if", [self.term(item) for item in parts])
            case _:
                return None

    def _compound(self, node: exp.Expr) -> Term | None:
        match node:
            case exp.Neg():
                return self._negative(node)
            case exp.Pow():
                return self._call("pow", [self.term(node.this), self.term(node.expression)])
            case exp.DPipe():
                return join_strings(self.term(node.this), self.term(node.expression))
            case exp.TryCast():
                return cast(self.term(node.this), target_type(node.to), attempt=True)
            case exp.Cast():
                return self._cast(node)
            case exp.Extract() | exp.AtTimeZone():
                return self._of_time(node)
            case exp.Dot():
                return self._dot(node)
            case exp.Bracket():
                return self._element(node)
            case exp.Anonymous() | exp.Filter():
                return self._named(node)
            case _:
                return None

    def _binary(self, symbol: str, left: Term, right: Term) -> Term:
        if left.interval is not None or right.interval is not None:
            return _with_interval(symbol, left, right)
        if symbol == "-" and is_time(left.type) and is_time(right.type):
            unit = "day" if left.type == right.type == Primitive.DATE else "second"
            raise ExpressionError("the difference of two times has no type here", remedy=f"date_diff('{unit}', a, b)")
        days = right if left.type == Primitive.DATE else left
        date = left if days is right else right
        if symbol in "+-" and date.type == Primitive.DATE and days.type in (Primitive.INT32, Primitive.INT64):
            if symbol == "-" and date is right:
                raise ExpressionError("a date cannot be taken from a number")
            return shift_days(date, days, 1 if symbol == "+" else -1)
        if is_time(left.type) or is_time(right.type):
            raise ExpressionError(
                f"{left.type_name} {symbol} {right.type_name} has no meaning", remedy="add an interval '5 minutes'"
            )
        return arithmetic(symbol, left, right)

    def _chain(self, node: exp.Expr, kind: type[exp.Expr], join: Callable[[Term, Term], Term]) -> Term:
        """A left-deep chain of one connector. Iterates instead of recursing, because chains may be long."""
        rights: list[exp.Expr] = []
        left = node
        while isinstance(left, kind):
            rights.append(left.expression)
            left = left.this
        found = self.term(left)
        for right in reversed(rights):
            found = join(found, self.term(right))
        return found

    def _is(self, node: exp.Is) -> Term:
        other = node.expression
        if isinstance(other, exp.Null):
            found = comparison.is_null(self.term(node.this))
        elif isinstance(other, exp.Boolean):
            found = comparison.is_truth(self.term(node.this), truth=bool(other.this))
        else:
            raise ExpressionError("`is` is followed by null, true, false or distinct from")
        return self._negatable(node, found)

    def _negatable(self, node: exp.Expr, term: Term) -> Term:
        return comparison.invert(term) if node.args.get("negate") else term

    def _in(self, node: exp.In) -> Term:
        if not node.expressions:
            raise ExpressionError("`in` takes a list of values: x in (1, 2)", remedy="for a list: list_contains(l, x)")
        return comparison.member(self.term(node.this), [self.term(item) for item in node.expressions])

    def _like(self, node: exp.Expr, escape: str | None) -> Term:
        found = like(
            self.term(node.this),
            self.term(node.expression),
            escape=escape,
            ignore_case=isinstance(node, exp.ILike),
        )
        return self._negatable(node, found)

    def _escaped(self, node: exp.Escape) -> Term:
        character = node.expression
        if not isinstance(character, exp.Literal) or len(character.name) != 1:
            raise ExpressionError("escape takes one character in quotes")
        if isinstance(node.this, exp.Not):
            return comparison.invert(self._like(node.this.this, character.name))
        return self._like(node.this, character.name)

    def _negative(self, node: exp.Neg) -> Term:
        inner = node.this
        if isinstance(inner, exp.Literal) and not inner.is_string and inner.name == str(INT64_MAX + 1):
            return literal(-INT64_MAX - 1, Primitive.INT64)
        return negate(self.term(inner))

    def _cast(self, node: exp.Cast) -> Term:
        target = target_type(node.to)
        if isinstance(node.to.this, exp.DType) and node.to.this == exp.DType.INTERVAL:
            raise ExpressionError("cannot cast to an interval", remedy="write interval '5 minutes'")
        term = cast(self.term(node.this), target, attempt=False)
        constant = isinstance(node.this, exp.Literal) and node.this.is_string
        return _folded(term, node.this.name) if constant and is_time(target) else term

    def _case(self, node: exp.Case) -> Term:
        branches = [(self.term(item.this), self.term(item.args["true"])) for item in node.args["ifs"]]
        fallback = node.args.get("default")
        default = self.term(fallback) if fallback is not None else None
        if node.this is None:
            return conditional.case(branches, default)
        return conditional.simple_case(self.term(node.this), branches, default)

    def _of_time(self, node: exp.Extract | exp.AtTimeZone) -> Term:
        if isinstance(node, exp.Extract):
            return self._extract(node.name, self.term(node.expression))
        return self._call("timezone", [self.term(node.args["zone"]), self.term(node.this)])

    def _extract(self, name: str, term: Term) -> Term:
        if not is_time(term.type):
            raise ExpressionError(f"extract needs a timestamp or date, not {term.type_name}")
        if name.lower() == "epoch":
            return self._call("epoch", [term])
        held = cast(term, TIMESTAMP, attempt=False)
        return combine([held], Primitive.INT64, part(name, held.value))

    def _dot(self, node: exp.Dot) -> Term:
        if not isinstance(node.expression, exp.Identifier):
            raise ExpressionError("a dot is followed by the name of a field")
        return field_of(self.term(node.this), node.expression.name)

    def _element(self, node: exp.Bracket) -> Term:
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
            raise ExpressionError("a list takes one place: list[1]")
        return element_of(self.term(node.this), self.term(node.expressions[0]))

    def _named(self, node: exp.Expr) -> Term:
        call = node.this if isinstance(node, exp.Filter) else node
        name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
        if name in AGGREGATES:
            if self._aggregate is None:
                raise ExpressionError(f"{name} is an aggregate", remedy="use it in the aggregate of a step with key_by")
            return self._aggregate(node)
        if isinstance(node, exp.Filter):
            raise ExpressionError("filter (where ..) belongs to an aggregate call")
        if name == "now" and self._aggregate is not None:
            raise ExpressionError("now() is a row's event time, not a group's", remedy="aggregate it: max(now())")
        if name == "now" and not self._scope.has_time:
            raise ExpressionError(
                "now() is the row's event time, and these rows have none", remedy="give the source a `time:`"
            )
        if name == "position":
            return self._position(call)
        if name not in FUNCTIONS and name not in FORMS:
            raise ExpressionError(f"there is no function {name!r}", remedy=self._nearest(name))
        return self._call(name, [self.term(item) for item in call.expressions])

    def _nearest(self, name: str) -> str:
        """The remedy for an unknown function: its replacement, the name meant, or what there is."""
        known = [*FUNCTIONS, *FORMS, *(AGGREGATES if self._aggregate else ())]
        hint = FOREIGN_NAMES.get(name) or did_you_mean(name, known)
        if hint:
            return hint
        listed = "`headrace functions` lists all functions"
        return f"aggregates: {', '.join(sorted(AGGREGATES))}; {listed}" if self._aggregate else listed

    def _position(self, call: exp.Expr) -> Term:
        inner = call.expressions[0] if len(call.expressions) == 1 else None
        if not isinstance(inner, exp.In) or inner.args.get("field") is None:
            raise ExpressionError("position takes a text and where to look", remedy="write position('a' in s)")
        return self._call("strpos", [self.term(inner.args["field"]), self.term(inner.this)])

    def _call(self, name: str, terms: Sequence[Term]) -> Term:
        if name == "date_part" and len(terms) == 2 and terms[0].literal == "epoch":
            return self._call("epoch", terms[1:])
        found = FUNCTIONS.get(name) or FORMS[name]
        return found.call(terms)


def _literal(node: exp.Literal) -> Term:
    text = str(node.this)
    if node.is_string:
        return literal(text, Primitive.STRING)
    if text.isdigit():
        value = int(text)
        if value > INT64_MAX:
            raise ExpressionError(
                f"{text} does not fit int64", remedy="write it as a float (1e20), or cast('..' as decimal(38,0))"
            )
        return literal(value, Primitive.INT64)
    try:
        number = float(text)
    except ValueError as error:
        raise ExpressionError(f"{text!r} is not a number") from error
    if math.isinf(number):
        raise ExpressionError(f"{text} does not fit float64")
    return literal(number, Primitive.FLOAT64)


def _interval(node: exp.Interval) -> Term:
    if not isinstance(node.this, exp.Literal):
        raise ExpressionError("an interval is a literal", remedy="write interval '5 minutes'")
    unit = node.args.get("unit")
    if unit is not None and not isinstance(unit, exp.Var):
        raise ExpressionError("an interval has one unit", remedy="write interval '1 hour 30 minutes'")
    interval = parse_interval(node.this.name, None if unit is None else unit.name)
    return Term(None, NULL.value, nullable=False, interval=interval)


def _with_interval(symbol: str, left: Term, right: Term) -> Term:
    if symbol == "+" and left.interval is not None and is_time(right.type):
        left, right = right, left
    if symbol not in ("+", "-") or right.interval is None or not is_time(left.type):
        raise ExpressionError(
            f"{left.type_name} {symbol} {right.type_name}: an interval can only be added to or taken from a time"
        )
    return shift(left, right.interval, 1 if symbol == "+" else -1)


def _folded(term: Term, text: str) -> Term:
    """A time literal, evaluated at compile time: an invalid one fails before any row, and rows do not compute it
    again."""
    dtype = term.known_type()
    value = pl.select(term.value).item()
    if value is None:
        shape = "2013-01-01 05:00:00" if isinstance(dtype, Timestamp) else "2013-01-01"
        raise ExpressionError(f"{text!r} is not a {dtype}", remedy=f"write it as '{shape}'")
    return literal(value, dtype)
