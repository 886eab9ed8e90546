"""Well-typed expressions to draw from, and the same expressions as Python, which computes them on its own."""

import itertools
from datetime import UTC, date, datetime, time, timedelta, timezone
from fractions import Fraction
from functools import cache
from typing import Any

from hypothesis import strategies as st

from guard.procedure.load import parse
from guard.procedure.model import Hit, Parameter, RangeCell, Return, Row, Table
from guard.procedure.nodes import (
    Aggregate,
    Arithmetic,
    Call,
    Choose,
    Comparison,
    Convert,
    Default,
    Expr,
    FieldOf,
    IsNull,
    ListOf,
    Literal,
    Logic,
    Name,
    Negate,
    Not,
    RecordOf,
    Shift,
)
from guard.procedure.scope import Scope
from guard.procedure.types import (
    NULL,
    BoolType,
    DatetimeType,
    DateType,
    DecimalType,
    EnumType,
    FieldType,
    IntType,
    ListType,
    Null,
    NullType,
    OptionalType,
    PercentType,
    RecordType,
    StringType,
    TextType,
    Type,
    Value,
)
from guard.source import Source

INT, MONEY, PERCENT, BOOL, STRING = IntType(), DecimalType(2), PercentType(), BoolType(), StringType()
COUNTRY = EnumType(("DE", "AT"))
LINE = RecordType((FieldType("name", STRING), FieldType("qty", INT), FieldType("price", MONEY)), "Line")
VARIABLES: dict[str, Type] = {
    "i": INT,
    "j": INT,
    "d": MONEY,
    "e": MONEY,
    "r": PERCENT,
    "b": BOOL,
    "c": BOOL,
    "s": STRING,
    "k": COUNTRY,
    "note": TextType(),
    "xs": ListType(INT),
    "ls": ListType(LINE),
    "one": LINE,
    "o": OptionalType(INT),
    "p": OptionalType(MONEY),
    "maybe": OptionalType(RecordType((FieldType("q", OptionalType(INT)),))),
    "due": DateType(),
    "paid": DateType(),
    "at": DatetimeType(),
    "seen": DatetimeType(),
}


def number(text: str) -> Literal:
    """A number as it is written."""
    if text.endswith("%"):
        return Literal(Fraction(text[:-1]) / 100, PERCENT)
    if "." in text:
        return Literal(Fraction(text), DecimalType(len(text.partition(".")[2])))
    return Literal(int(text), INT)


BULK = Table(
    "bulk",
    (Parameter("qty", INT),),
    PERCENT,
    Hit.FIRST,
    (
        Row((RangeCell(None, number("9")),), number("0%")),
        Row((RangeCell(number("10"), number("49")),), number("5%")),
        Row((RangeCell(number("50"), None),), number("12.5%")),
    ),
)
SCOPE = Scope(VARIABLES, {"bulk": BULK})

# --- values --------------------------------------------------------------------------------------

_ints = st.integers(-60, 60)
_money = st.integers(-5000, 5000).map(lambda n: Fraction(n, 100))
_null: st.SearchStrategy[Value] = st.just(NULL)
_strings = st.sampled_from(["", "hinge", "oak panel", "x" * 40, "y" * 41])
_line: st.SearchStrategy[Value] = st.fixed_dictionaries({"name": _strings, "qty": _ints, "price": _money})
_dates = st.dates(date(1990, 1, 1), date(2040, 12, 31)) | st.sampled_from(
    [date(2024, 2, 29), date(2026, 1, 31), date(2025, 12, 31)]
)
_offsets = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8))])
_moments = st.builds(
    lambda day, seconds, zone: datetime.combine(day, time(), zone) + timedelta(seconds=seconds),
    _dates,
    st.integers(0, 86_399),
    _offsets,
)
_values: dict[str, st.SearchStrategy[Value]] = {
    "i": _ints,
    "j": _ints,
    "d": _money,
    "e": _money,
    "r": st.sampled_from([Fraction(0), Fraction(1, 20), Fraction(1, 8)]),
    "b": st.booleans(),
    "c": st.booleans(),
    "s": _strings,
    "k": st.sampled_from(["DE", "AT"]),
    "note": st.just("a note"),
    "xs": st.lists(_ints, max_size=10).map(tuple),
    "ls": st.lists(_line, max_size=10).map(tuple),
    "one": _line,
    "o": _null | _ints,
    "p": _null | _money,
    "maybe": _null | st.fixed_dictionaries({"q": _null | _ints}),
    "due": _dates,
    "paid": _dates,
    "at": _moments,
    "seen": _moments,
}
environments: st.SearchStrategy[dict[str, Value]] = st.fixed_dictionaries(_values)

# --- expressions ---------------------------------------------------------------------------------

_constants = st.one_of(
    st.integers(-30, 30).map(lambda n: Literal(n, INT)),
    st.builds(
        lambda n, places: Literal(Fraction(n, 10**places), DecimalType(places)),
        st.integers(-999, 999),
        st.integers(1, 3),
    ),
    st.sampled_from(["0%", "3%", "12.5%", "-4%"]).map(number),
)


def _operands(inner: str | None) -> st.SearchStrategy[Expr]:
    """Numbers that are there; inside an aggregate also those of its variable."""
    named: list[Expr] = [
        Name("i"),
        Name("j"),
        Name("d"),
        Name("e"),
        Name("r"),
        FieldOf(Name("one"), "qty"),
        FieldOf(Name("one"), "price"),
    ]
    bound: dict[str, list[Expr]] = {
        "x": [Name("x")],
        "l": [FieldOf(Name("l"), "qty"), FieldOf(Name("l"), "price")],
    }
    named += bound.get(inner or "", [])
    return st.sampled_from(named) | _constants


def _amounts(depth: int) -> st.SearchStrategy[Expr]:
    """Whole numbers that are small enough to be added to a date."""
    named: list[Expr] = [Name("i"), Name("j"), Arithmetic("*", Name("i"), Literal(2, INT)), Negate(Name("j"))]
    some = st.sampled_from(named) | st.integers(-30, 30).map(lambda n: Literal(n, INT))
    return some if depth == 0 else some | st.builds(Choose, conditions(depth - 1), some, some)


@cache
def dates(depth: int = 3, kind: str = "date") -> st.SearchStrategy[Expr]:
    """Expressions that give a date, or a moment."""
    own: list[Expr] = [Name("due"), Name("paid"), Literal(date(2026, 1, 31), DateType())]
    if kind == "datetime":
        own = [Name("at"), Name("seen"), Literal(datetime(2026, 6, 1, 9, 30, tzinfo=UTC), DatetimeType())]
    if depth == 0:
        return st.sampled_from(own)
    less = dates(depth - 1, kind)
    even = ["days", "weeks"] if kind == "date" else ["days", "hours", "minutes", "seconds"]
    ops = st.sampled_from(["+", "-"])
    options = [
        st.sampled_from(own),
        st.builds(Shift, less, ops, _amounts(depth - 1), st.sampled_from(even), st.none()),
        st.builds(
            Shift,
            less,
            ops,
            _amounts(depth - 1),
            st.sampled_from(["months", "years"]),
            st.sampled_from(["down", "up"]),
        ),
        st.builds(lambda name, a, b: Call(name, (a, b)), st.sampled_from(["min", "max"]), less, less),
        st.builds(Choose, conditions(depth - 1), less, less),
    ]
    if kind == "date":
        options.append(dates(depth - 1, "datetime").map(lambda moment: Call("date", (moment,))))
    else:
        options.append(less.map(lambda moment: Call("zoned", (moment, Literal("+05:30", STRING)))))
    return st.one_of(options)


def numbers(depth: int = 3, inner: str | None = None) -> st.SearchStrategy[Expr]:
    """Expressions that give a number."""
    if depth == 0:
        return _operands(inner)
    less = numbers(depth - 1, inner)
    options = [
        _operands(inner),
        st.builds(Arithmetic, st.sampled_from(["+", "-", "*", "/", "div", "mod"]), less, less),
        less.filter(lambda expr: not isinstance(expr, Literal)).map(Negate),
        st.builds(Choose, conditions(depth - 1, inner), less, less),
        st.builds(lambda name, a, b: Call(name, (a, b)), st.sampled_from(["min", "max", "sum"]), less, less),
        st.builds(lambda name, a: Call(name, (a,)), st.sampled_from(["abs", "floor", "ceil"]), less),
        st.builds(lambda a, n: Call("round", (a, Literal(n, INT))), less, st.integers(0, 3)),
        _pairs(depth - 1).map(lambda pair: Arithmetic("-", *pair)),
        st.builds(
            lambda name, moment: Call(name, (moment,)),
            st.sampled_from(["year", "month", "day", "weekday"]),
            dates(depth - 1) | dates(depth - 1, "datetime"),
        ),
        st.sampled_from([Call("bulk", (Name("i"),)), Call("len", (Name("ls"),)), Call("sum", (Name("xs"),))]),
    ]
    options.append(_filled(less, conditions(depth - 1, inner)))
    if inner is None:
        options.append(_aggregates(["sum", "min", "max", "count"], numbers, depth))
    return st.one_of(options)


_nullable: st.SearchStrategy[Expr] = st.sampled_from([Name("o"), Name("p")])
_MAYBE = Name("maybe")


def _filled(values: st.SearchStrategy[Expr], tests: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    """Numbers made of such as may be null."""
    null = Literal(NULL, NullType())
    return st.one_of(
        st.builds(Default, _nullable, values),
        st.builds(lambda c, x, y: Default(Choose(c, x, null), y), tests, _nullable | values, values),
        st.builds(lambda x, y, z: Choose(IsNull(x), y, Arithmetic("+", x, z)), _nullable, values, values),
        st.builds(
            lambda y: Default(
                Choose(IsNull(_MAYBE, negated=True), FieldOf(_MAYBE, "q"), null),
                Choose(IsNull(_MAYBE), y, Literal(1, INT)),
            ),
            values,
        ),
    )


@cache
def _pairs(depth: int) -> st.SearchStrategy[tuple[Expr, Expr]]:
    """Two dates, or two moments."""
    moments = dates(depth, "datetime")
    return st.tuples(dates(depth), dates(depth)) | st.tuples(moments, moments)


def conditions(depth: int = 3, inner: str | None = None) -> st.SearchStrategy[Expr]:
    """Expressions that are true or false."""
    named: list[Expr] = [Name("b"), Name("c"), Literal(True, BOOL), Literal(False, BOOL)]
    if depth == 0:
        return st.sampled_from(named)
    less, values = conditions(depth - 1, inner), numbers(depth - 1, inner)
    texts: list[Expr] = [
        Name("s"),
        Name("k"),
        Literal("DE", STRING),
        Literal('say "hi"\n', STRING),
        FieldOf(Name("one"), "name"),
    ]
    texts += [FieldOf(Name("l"), "name")] if inner == "l" else []
    options = [
        st.sampled_from(named),
        st.builds(Comparison, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), values, values),
        st.builds(
            lambda op, pair: Comparison(op, *pair),
            st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
            _pairs(depth - 1),
        ),
        st.builds(Comparison, st.sampled_from(["==", "!="]), st.sampled_from(texts), st.just(Name("s"))),
        st.builds(Comparison, st.sampled_from(["in", "not in"]), values, st.just(Name("xs"))),
        st.builds(
            lambda op, item, items: Comparison(op, item, ListOf(tuple(items))),
            st.sampled_from(["in", "not in"]),
            values,
            st.lists(values, min_size=1, max_size=2),
        ),
        st.builds(Logic, st.sampled_from(["and", "or"]), less, less),
        less.map(Not),
        st.builds(Choose, less, less, less),
        st.builds(IsNull, _nullable, st.booleans()),
        st.builds(
            lambda x, c: Logic("and", IsNull(x, negated=True), Logic("or", c, IsNull(x))), _nullable, less
        ),
        st.builds(lambda x, n: Logic("or", IsNull(x), Comparison("<", x, n)), _nullable, values),
        st.builds(lambda x, n: Logic("and", Not(IsNull(x)), Comparison("==", n, x)), _nullable, values),
    ]
    if inner is None:
        options.append(_aggregates(["all", "any"], conditions, depth))
    return st.one_of(options)


def _aggregates(functions: list[str], terms: Any, depth: int) -> st.SearchStrategy[Expr]:
    def over(variable: str, items: str) -> st.SearchStrategy[Expr]:
        condition = st.none() | conditions(depth - 1, variable)
        term = terms(depth - 1, variable)
        return st.builds(
            Aggregate, st.sampled_from(functions), term, st.just(variable), st.just(Name(items)), condition
        )

    return over("x", "xs") | over("l", "ls")


times = dates() | dates(kind="datetime")
expressions = numbers() | conditions() | times

# --- the same in Python --------------------------------------------------------------------------


def _later(moment: Any, amount: int, unit: str, mode: str) -> Any:
    if mode == "None":
        return moment + timedelta(**{unit: 1}) * amount
    months = moment.year * 12 + moment.month - 1 + amount * {"years": 12, "months": 1}[unit]
    first = moment.replace(year=months // 12, month=months % 12 + 1, day=1)
    there = first + timedelta(days=moment.day - 1)
    if there.month == first.month:
        return there
    following = (first + timedelta(days=31)).replace(day=1)
    return following if mode == "up" else following - timedelta(days=1)


def _apart(later: Any, earlier: Any) -> int:
    return int(
        (later - earlier) / timedelta(seconds=1) if isinstance(later, datetime) else (later - earlier).days
    )


PYTHON: dict[str, Any] = {
    "F": Fraction,
    "NULL": NULL,
    "int": int,
    "T": lambda text: datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text),
    "later": _later,
    "apart": _apart,
    "year": lambda moment: moment.year,
    "month": lambda moment: moment.month,
    "day": lambda moment: moment.day,
    "weekday": lambda moment: moment.weekday() + 1,
    "date": lambda moment: moment.date(),
    "zoned": lambda moment, zone: moment.astimezone(datetime.fromisoformat(f"2026-01-01T00:00{zone}").tzinfo),
    "sum": lambda *values: sum(values[0] if _one_list(values) else values),
    "min": lambda *values: min(values[0] if _one_list(values) else values),
    "max": lambda *values: max(values[0] if _one_list(values) else values),
    "all": lambda *values: all(values[0] if _one_list(values) else values),
    "any": lambda *values: any(values[0] if _one_list(values) else values),
    "count": lambda *values: len(values[0] if _one_list(values) else values),
    "abs": abs,
    "len": len,
    "floor": lambda value: value // 1,
    "ceil": lambda value: -(-value // 1),
    # Half up, away from zero: add half, cut.
    "round": lambda value, n: (
        _sign(value) * Fraction((abs(Fraction(value)) * 10**n + Fraction(1, 2)) // 1, 10**n)
    ),
    "bulk": lambda qty: Fraction(0) if qty <= 9 else Fraction(1, 20) if qty <= 49 else Fraction(1, 8),
}


def _sign(value: Any) -> int:
    return -1 if value < 0 else 1


def _one_list(values: tuple[Any, ...]) -> bool:
    return len(values) == 1 and isinstance(values[0], list | tuple)


def python(expr: Expr) -> str:
    """The Python text of an expression, every part in parentheses."""
    match expr:
        case Literal(bool() as value):
            return str(value)
        case Literal(Null.NULL):
            return "NULL"
        case Convert():
            raise AssertionError(expr)  # units are settled before anything is computed
        case IsNull(operand, negated):
            return f"({python(operand)} is {'not ' if negated else ''}NULL)"
        case Default(value, fallback):
            return f"({python(fallback)} if {python(value)} is NULL else {python(value)})"
        case Literal(str() as value):
            return repr(value)
        case Literal(date() as value):
            return f"T('{value.isoformat()}')"
        case Literal(value):
            return f"F('{value}')"
        case Name(name):
            return name
        case FieldOf(record, name):
            return f"{python(record)}[{name!r}]"
        case Negate(operand):
            return f"(-{python(operand)})"
        case Shift(moment, op, amount, unit, mode):
            return f"later({python(moment)}, {op}int({python(amount)}), '{unit}', '{mode}')"
        case Arithmetic(_, left, right) if gives_time(left):
            return f"apart({python(left)}, {python(right)})"
        case Arithmetic(op, left, right):
            op = {"div": "//", "mod": "%"}.get(op, op)
            return f"(F({python(left)}) {op} F({python(right)}))"
        case Comparison(op, left, right) | Logic(op, left, right):
            return f"({python(left)} {op} {python(right)})"
        case Not(operand):
            return f"(not {python(operand)})"
        case Choose(condition, then, otherwise):
            return f"({python(then)} if {python(condition)} else {python(otherwise)})"
        case Call(function, arguments):
            return f"{function}({', '.join(map(python, arguments))})"
        case Aggregate(function, term, variable, items, condition):
            only = "" if condition is None else f" if {python(condition)}"
            return f"{function}([{python(term)} for {variable} in {python(items)}{only}])"
        case ListOf(items):
            return f"[{', '.join(map(python, items))}]"
        case RecordOf(fields):
            return "{" + ", ".join(f"{name!r}: {python(value)}" for name, value in fields) + "}"


def gives_time(expr: Expr) -> bool:
    """Whether an expression gives a date or moment."""
    match expr:
        case Literal(date()) | Shift() | Call("date" | "zoned"):
            return True
        case Call("min" | "max", (first, _)) | Choose(_, first, _):
            return gives_time(first)
        case Name(name):
            return isinstance(VARIABLES.get(name), DateType | DatetimeType)
        case _:
            return False


def computed(expr: Expr, values: dict[str, Value]) -> Any:
    """What Python makes of an expression. Raises ZeroDivisionError or ValueError where it has no value."""
    return eval(python(expr), {"__builtins__": {}, **PYTHON, **values})


def read(text: str) -> Expr:
    """The expression that a text is."""
    module, problems = parse(Source("test", f"procedure p() -> int\n  return {text}\n"))
    assert problems == [], (text, [problem.message for problem in problems])
    assert module is not None
    step = module.procedures["p"].body[0]
    assert isinstance(step, Return)
    return step.expression


def subsets(names: list[str]) -> st.SearchStrategy[set[str]]:
    """Some of some names."""
    return st.sets(st.sampled_from(names)) | st.sampled_from(
        [set(pair) for pair in itertools.combinations(names, 2)]
    )
