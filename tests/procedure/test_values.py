"""Values: numbers read and spelled exactly, every rounding, bounds before conversion, JSON both ways."""

import decimal
import json
import math
import time
from datetime import timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from guard.procedure.numbers import DIGITS, Unspellable, decimals_of, parse_number, round_to
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
    NothingType,
    NullType,
    OptionalType,
    PercentType,
    RecordType,
    Rounding,
    StringType,
    TextType,
    Type,
    Value,
)
from guard.procedure.values import (
    answer_text,
    coerce,
    conforms,
    equal,
    from_json,
    json_text,
    spell,
    to_json,
    wanted,
)

INT, DECIMAL, MONEY, PERCENT = IntType(), DecimalType(), DecimalType(2), PercentType()
BOOL, STRING, TEXT, COUNTRY = BoolType(), StringType(), TextType(), EnumType(("DE", "AT"))
LINE = RecordType((FieldType("name", STRING), FieldType("qty", INT), FieldType("price", MONEY)), "Line")
LINES = ListType(LINE)
HINGE: dict[str, Value] = {"name": "hinge", "qty": 12, "price": Fraction("3.35")}

decimals = st.builds(
    lambda whole, places: Fraction(whole, 10**places),
    st.integers(-(10**30), 10**30),
    st.integers(0, 9),
)


# --- numbers from text ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("007", 7),
        ("12", 12),
        ("-12", -12),
        ("3.35", Fraction("3.35")),
        ("-0.50", Fraction(-1, 2)),
        ("4.0", Fraction(4)),
        ("5%", Fraction(1, 20)),
        ("12.5%", Fraction(1, 8)),
        ("-3%", Fraction(-3, 100)),
        ("9" * 40, 10**40 - 1),
        ("0." + "9" * 39, 1 - Fraction(1, 10**39)),
    ],
)
def test_reads_exact_numbers(text: str, value: int | Fraction) -> None:
    found = parse_number(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "+1",
        ".5",
        "5.",
        "1.2.3",
        "1e5",
        "1E5",
        "1e999999",
        "9**9**9",
        "1_000",
        "1,000",
        "1 000",
        " 1",
        "1 ",
        "1\n",
        "--1",
        "0x10",
        "NaN",
        "Infinity",
        "inf",
        "٣",
        "\uff11\uff12",
        "1\uff12",
        "5%%",
        "%",
        "1/3",
        "9" * 41,
        "0." + "0" * 40,
        "1" * 20 + "." + "1" * 21,
        "9" * 5000,
    ],
)
def test_reads_nothing_else(text: str) -> None:
    assert parse_number(text) is None


@pytest.mark.parametrize("text", ["9" * 5_000_000, "1e999999999", "9**9**9**9", "." * 1_000_000])
def test_decides_hostile_numbers_at_once(text: str) -> None:
    before = time.process_time()
    assert parse_number(text) is None
    assert time.process_time() - before < 1


@given(st.text(max_size=60))
def test_never_raises_and_takes_ascii_only(text: str) -> None:
    if parse_number(text) is not None:
        assert set(text) <= set("-.%0123456789")


# --- rounding ------------------------------------------------------------------------------------

MODES = {
    Rounding.HALF_UP: decimal.ROUND_HALF_UP,
    Rounding.HALF_DOWN: decimal.ROUND_HALF_DOWN,
    Rounding.HALF_EVEN: decimal.ROUND_HALF_EVEN,
    Rounding.DOWN: decimal.ROUND_DOWN,
    Rounding.UP: decimal.ROUND_UP,
    Rounding.FLOOR: decimal.ROUND_FLOOR,
    Rounding.CEILING: decimal.ROUND_CEILING,
}


@pytest.mark.parametrize(
    ("number", "by_mode"),  # half_up half_even down up floor ceiling
    [
        ("2.485", "2.49 2.48 2.48 2.48 2.49 2.48 2.49"),
        ("0.295", "0.30 0.29 0.30 0.29 0.30 0.29 0.30"),
        ("2.675", "2.68 2.67 2.68 2.67 2.68 2.67 2.68"),
        ("-2.485", "-2.49 -2.48 -2.48 -2.48 -2.49 -2.49 -2.48"),
        ("-0.005", "-0.01 0.00 0.00 0.00 -0.01 -0.01 0.00"),
        ("0.005", "0.01 0.00 0.00 0.00 0.01 0.00 0.01"),
        ("1.2349", "1.23 1.23 1.23 1.23 1.24 1.23 1.24"),
        ("-1.2351", "-1.24 -1.24 -1.24 -1.23 -1.24 -1.24 -1.23"),
        ("7", "7.00 7.00 7.00 7.00 7.00 7.00 7.00"),
    ],
)
def test_rounds_ties_and_negatives_by_the_mode(number: str, by_mode: str) -> None:
    results = [spell(round_to(Fraction(number), 2, mode), MONEY) for mode in Rounding]
    assert " ".join(results) == by_mode


@given(decimals, st.integers(0, 6), st.sampled_from(Rounding))
@example(Fraction("0.5"), 0, Rounding.HALF_EVEN)
@example(Fraction("-2.5"), 0, Rounding.HALF_UP)
def test_rounds_like_the_decimal_standard(number: Fraction, places: int, mode: Rounding) -> None:
    with decimal.localcontext() as context:
        context.prec = 100
        exact = Decimal(number.numerator) / Decimal(number.denominator)
        wanted_ = exact.quantize(Decimal(1).scaleb(-places), rounding=MODES[mode])
    assert round_to(number, places, mode) == Fraction(wanted_)


@given(st.fractions(), st.integers(0, 8), st.sampled_from(Rounding))
def test_a_rounded_number_is_a_neighbour_and_stays(number: Fraction, places: int, mode: Rounding) -> None:
    rounded = round_to(number, places, mode)
    assert abs(rounded - number) < Fraction(1, 10**places)
    needed = decimals_of(rounded.denominator)
    assert needed is not None
    assert needed <= places
    assert round_to(rounded, places, mode) == rounded


@given(st.fractions(), st.integers(0, 8))
def test_directed_modes_enclose_the_number(number: Fraction, places: int) -> None:
    floor, ceiling = round_to(number, places, Rounding.FLOOR), round_to(number, places, Rounding.CEILING)
    down, up = round_to(number, places, Rounding.DOWN), round_to(number, places, Rounding.UP)
    assert number - floor >= 0
    assert ceiling - number >= 0
    assert Fraction(down) ** 2 <= number**2 <= Fraction(up) ** 2
    assert {down, up} == {floor, ceiling}


def test_whole_numbers_stay_whole() -> None:
    assert type(round_to(7, 2, Rounding.UP)) is int


# --- spelling ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (12, INT, "12"),
        (-12, INT, "-12"),
        (10**39, INT, "1" + "0" * 39),
        (Fraction("244.8"), MONEY, "244.80"),
        (Fraction("244.805"), MONEY, "244.805"),
        (5, MONEY, "5.00"),
        (-5, MONEY, "-5.00"),
        (Fraction(-1, 200), MONEY, "-0.005"),
        (Fraction(0), MONEY, "0.00"),
        (Fraction(5), DECIMAL, "5"),
        (Fraction("5.10"), DECIMAL, "5.1"),
        (Fraction(5), DecimalType(0), "5"),
        (Fraction(1, 8), PERCENT, "12.5%"),
        (Fraction(1, 20), PERCENT, "5%"),
        (0, PERCENT, "0%"),
        (Fraction(-3, 100), PERCENT, "-3%"),
        (2, PERCENT, "200%"),
        (Fraction(1, 3000), ListType(INT), None),
        (True, BOOL, "true"),
        (False, BOOL, "false"),
        ("DE", COUNTRY, '"DE"'),
        ("", STRING, '""'),
        ('say "hi"\\\n\t', STRING, r'"say \"hi\"\\\n\t"'),
        ("\x00\x1f", STRING, r'"\u0000\u001f"'),
        ("Käse → 你好 🧀", STRING, '"Käse → 你好 🧀"'),
        ("a\u2028b\x85c", TEXT, '"a\u2028b\x85c"'),
        ((), LINES, "[]"),
        ((HINGE,), LINES, '[{"name": "hinge", "qty": 12, "price": 3.35}]'),
        ((HINGE, HINGE), ListType(LINE), None),
        ((1, 2), ListType(MONEY), "[1.00, 2.00]"),
        ({"price": 1, "name": "a", "qty": 2}, LINE, '{"name": "a", "qty": 2, "price": 1.00}'),
    ],
)
def test_spells_every_type_canonically(value: Value, kind: Type, text: str | None) -> None:
    if text is not None:
        assert spell(value, kind) == text


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Fraction(1, 3), DECIMAL),
        (Fraction(1, 3), PERCENT),
        (10**40, INT),
        (-(10**40), INT),
        (Fraction(1, 10**40), DECIMAL),
        (10**38, MONEY),
        (Fraction(1, 2**200), DECIMAL),
    ],
)
def test_has_no_spelling_for_numbers_without_end_or_too_long(value: Value, kind: Type) -> None:
    with pytest.raises(Unspellable, match=r"a number (whose decimals never end|of more than 40 digits)"):
        spell(value, kind)


@given(decimals, st.sampled_from([DECIMAL, MONEY, DecimalType(0), DecimalType(7), PERCENT]))
def test_what_is_spelled_is_read_back(number: Fraction, kind: Type) -> None:
    text = spell(number, kind)
    assert parse_number(text) == number
    assert "e" not in text.lower()
    assert not text.startswith("-0%")
    assert spell(number, kind) == text


@given(decimals, st.integers(0, 6))
def test_a_spelling_has_its_places_and_no_needless_zero(number: Fraction, places: int) -> None:
    behind = spell(number, DecimalType(places)).partition(".")[2]
    assert len(behind) >= places
    assert len(behind) == places or not behind.endswith("0")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_strings_are_spelled_on_one_line_and_read_back(value: str) -> None:
    text = spell(value, STRING)
    assert "\n" not in text
    assert "\r" not in text
    assert json.loads(text) == value


# --- answers and JSON ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (Fraction("329.4"), MONEY, "329.40"),
        ("Too late.\nSorry.", STRING, "Too late.\nSorry."),
        ("DE", COUNTRY, "DE"),
        (True, BOOL, "true"),
        (Fraction(1, 8), PERCENT, "12.5%"),
        ((HINGE,), LINES, '[{"name": "hinge", "qty": 12, "price": 3.35}]'),
        ({"rate": Fraction(1, 8)}, RecordType((FieldType("rate", PERCENT),)), '{"rate": 0.125}'),
    ],
)
def test_answers_are_bare_scalars_or_json(value: Value, kind: Type, text: str) -> None:
    assert answer_text(value, kind) == text


names = st.sampled_from(["a", "b", "qty", "name"])
scalars: st.SearchStrategy[Type] = st.sampled_from(
    [INT, DECIMAL, MONEY, PERCENT, BOOL, DateType(), DatetimeType(), STRING, TEXT, COUNTRY]
)
types: st.SearchStrategy[Type] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(ListType, inner),
        st.builds(OptionalType, inner.filter(lambda kind: not isinstance(kind, OptionalType | TextType))),
        st.lists(st.builds(FieldType, names, inner), min_size=1, max_size=3, unique_by=lambda f: f.name).map(
            lambda fields: RecordType(tuple(fields))
        ),
    ),
    max_leaves=4,
)


def values_of(kind: Type) -> st.SearchStrategy[Value]:
    match kind:
        case IntType():
            return st.integers(-(10**12), 10**12) | st.integers(10**39, 10**40 - 1)
        case DecimalType(places):
            return st.integers(-(10**9), 10**9).map(
                lambda n: Fraction(n, 10 ** (3 if places is None else places))
            )
        case PercentType():
            return st.integers(-(10**4), 10**4).map(lambda n: Fraction(n, 1000))
        case BoolType():
            return st.booleans()
        case DateType():
            return st.dates()
        case DatetimeType():
            zone = st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
            return st.builds(
                lambda moment, at: moment.replace(microsecond=0, tzinfo=at), st.datetimes(), zone
            )
        case EnumType(options):
            return st.sampled_from(options)
        case StringType() | TextType():
            plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
            return plain.map(lambda text: coerce(text, STRING) or "")
        case NothingType():
            return st.nothing()
        case ListType(item):
            return st.lists(values_of(item), max_size=3).map(tuple)
        case RecordType(fields):
            return st.fixed_dictionaries({field.name: values_of(field.type) for field in fields})
        case OptionalType(item):
            return st.just(NULL) | values_of(item)
        case NullType():
            return st.just(NULL)


typed = types.flatmap(lambda kind: st.tuples(st.just(kind), values_of(kind)))


@given(typed)
def test_json_text_is_read_back_as_the_value(case: tuple[Type, Value]) -> None:
    kind, value = case
    text = json_text(value, kind)
    assert from_json(json.loads(text, parse_float=Decimal), kind) == value
    assert from_json(to_json(value, kind), kind) == value
    assert conforms(value, kind) is None
    assert equal(value, value)
    assert coerce(value, kind) == value


@given(typed)
def test_json_data_spells_as_json_text(case: tuple[Type, Value]) -> None:
    kind, value = case

    def rendered(data: object) -> str:
        match data:
            case list():
                return "[" + ", ".join(map(rendered, data)) + "]"
            case dict():
                return "{" + ", ".join(f'"{name}": {rendered(part)}' for name, part in data.items()) + "}"
            case Decimal():
                return str(data) if "E" not in str(data) else f"{data:f}"
            case _:
                return json.dumps(data, ensure_ascii=False)

    assert rendered(to_json(value, kind)) == json_text(value, kind)


@pytest.mark.parametrize(
    ("raw", "kind", "value"),
    [
        (3, INT, 3),
        (3.0, INT, 3),
        (3.35, MONEY, Fraction("3.35")),
        (0.1, DECIMAL, Fraction(1, 10)),
        (1e22, DECIMAL, 10**22),
        ("3.35", MONEY, Fraction("3.35")),
        (Decimal("3.350"), MONEY, Fraction("3.35")),
        (Fraction("3.35"), MONEY, Fraction("3.35")),
        ("12.5%", PERCENT, Fraction(1, 8)),
        (0.125, PERCENT, Fraction(1, 8)),
        ("e\u0301", STRING, "é"),
        ([], LINES, ()),
        ([{"qty": 12, "name": "hinge", "price": 3.35}], LINES, (HINGE,)),
    ],
)
def test_reads_json(raw: object, kind: Type, value: Value) -> None:
    found = from_json(raw, kind)
    assert found == value
    assert isinstance(found, bool) == isinstance(value, bool)


@pytest.mark.parametrize(
    ("raw", "kind", "message"),
    [
        (None, INT, "x: expected a whole number, found null"),
        (True, INT, "x: expected a whole number, found true"),
        ("3", INT, "x: expected a whole number, found '3'"),
        (3.5, INT, "x: expected a whole number, found 3.5"),
        (math.nan, DECIMAL, "x: expected a number, found nan"),
        (math.inf, DECIMAL, "x: expected a number, found inf"),
        (1e300, DECIMAL, "x: expected a number, found 1e+300"),
        (Decimal("1e999999"), DECIMAL, "x: expected a number, found 1E+999999"),
        (Decimal("1e-999999"), DECIMAL, "x: expected a number, found 1E-999999"),
        (10**40, INT, "x: expected a number of at most 40 digits, found a longer number"),
        pytest.param(
            10**5000,
            INT,
            "x: expected a number of at most 40 digits, found a longer number",
            id="5001 digits",
        ),
        (3.355, MONEY, "x: expected a number with at most 2 decimals, found 3.355"),
        ("1e5", MONEY, "x: expected a number with at most 2 decimals, found '1e5'"),
        ("3,35", MONEY, "x: expected a number with at most 2 decimals, found '3,35'"),
        (1, BOOL, "x: expected true or false, found 1"),
        ("true", BOOL, "x: expected true or false, found 'true'"),
        (1, STRING, "x: expected a string, found 1"),
        ("FR", COUNTRY, 'x: expected one of "DE", "AT", found \'FR\''),
        ("de", COUNTRY, 'x: expected one of "DE", "AT", found \'de\''),
        ("a" * 10_001, STRING, "x: expected a string of at most 10000 characters, found 'aaaa"),
        ("\ud800", STRING, "x: expected Unicode text without lone surrogates, found '\\ud800'"),
        ("\udfff", TEXT, "x: expected Unicode text without lone surrogates, found '\\udfff'"),
        ({}, LINES, "x: expected a list, found an object"),
        ("[]", LINES, "x: expected a list, found '[]'"),
        ([1], LINES, "x[0]: expected a record of name, qty, price, found 1"),
        ([{"name": "a"}], LINES, "x[0]: expected a record of name, qty, price, missing: qty, price"),
        (
            [{"name": "a", "qty": 1, "price": 1, "vat": 2}],
            LINES,
            "x[0]: expected a record of name, qty, price, unknown: 'vat'",
        ),
        ([{"name": "a", "qty": "1", "price": 1}], LINES, "x[0].qty: expected a whole number, found '1'"),
    ],
)
def test_says_what_is_wrong_with_json_and_where(raw: object, kind: Type, message: str) -> None:
    with pytest.raises(ValueError, match=r"^x") as caught:
        from_json(raw, kind, "x")
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 200


def test_a_problem_at_the_top_has_no_path() -> None:
    with pytest.raises(ValueError, match=r"^expected a whole number, found 'x'$"):
        from_json("x", INT)


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(json_data, types)
def test_any_json_is_a_value_that_fits_or_a_value_error(raw: object, kind: Type) -> None:
    try:
        value = from_json(raw, kind)
    except ValueError as error:
        assert "expected " in str(error)  # noqa: PT017 (either end is right)
    else:
        assert conforms(value, kind) is None


def test_a_text_may_be_long() -> None:
    text = "a" * 1_000_000
    assert from_json(text, TEXT) == text


# --- fitting -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        (3, INT, None),
        (Fraction(3), INT, None),
        (3, MONEY, None),
        (Fraction("3.35"), MONEY, None),
        (Fraction("3.355"), MONEY, "a number with at most 2 decimals"),
        (Fraction("3.5"), DecimalType(1), None),
        (Fraction("3.55"), DecimalType(1), "a number with at most 1 decimal"),
        (Fraction("3.5"), DecimalType(0), "a number with at most 0 decimals"),
        (Fraction(1, 3), DECIMAL, "a number"),
        (Fraction("3.5"), INT, "a whole number"),
        (True, INT, "a whole number"),
        (True, MONEY, "a number with at most 2 decimals"),
        (1, BOOL, "true or false"),
        ("1", INT, "a whole number"),
        (1, STRING, "a string"),
        (Fraction(1, 8), PERCENT, None),
        ("5%", PERCENT, "a percentage such as 5%"),
        ("DE", COUNTRY, None),
        ("FR", COUNTRY, 'one of "DE", "AT"'),
        (10**40, INT, "a number of at most 40 digits"),
        (10**39, INT, None),
        (10**38, MONEY, "a number of at most 40 digits"),
        (10**37, MONEY, None),
        (10**38, PERCENT, "a number of at most 40 digits"),
        (Fraction(10**39 + 1, 100), DECIMAL, None),
        (Fraction(10**40 + 1, 100), DECIMAL, "a number of at most 40 digits"),
        ((HINGE,), LINES, None),
        (HINGE, LINES, "a list"),
        (({**HINGE, "qty": Fraction("1.5")},), LINES, "a whole number at [0].qty"),
        (({"name": "a"},), LINES, "a record of name, qty, price at [0]"),
        ({**HINGE, "extra": 1}, LINE, "a record of name, qty, price"),
        ({**HINGE, "qty": "x"}, LINE, "a whole number at qty"),
    ],
)
def test_says_why_a_value_does_not_fit(value: Value, kind: Type, reason: str | None) -> None:
    assert conforms(value, kind) == reason


@given(typed, types)
@example((INT, 10**38), MONEY)
@example((INT, 10**38 - 1), PERCENT)
@example((INT, 10**37), PERCENT)
def test_only_a_value_that_fits_can_be_spelled_and_kept(case: tuple[Type, Value], kind: Type) -> None:
    value = case[1]
    if conforms(value, kind) is None:
        kept = coerce(value, kind)
        assert kept is not None
        assert equal(kept, value)
        spell(kept, kind)


def test_keeps_values_in_the_shape_of_their_type() -> None:
    shuffled: Value = {"price": Fraction(3), "qty": Fraction(12), "name": "e\u0301"}
    kept = coerce(shuffled, LINE)
    assert kept == {"name": "é", "qty": 12, "price": 3}
    assert isinstance(kept, dict)
    assert list(kept) == ["name", "qty", "price"]
    assert type(kept["qty"]) is int


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("x", INT),
        (True, INT),
        (1, BOOL),
        (Fraction(1, 2), INT),
        ((1, "x"), ListType(INT)),
        ({"a": 1}, LINE),
        (1, TEXT),
    ],
)
def test_keeps_nothing_of_another_kind(value: Value, kind: Type) -> None:
    assert coerce(value, kind) is None


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (5, Fraction(5), True),
        (Fraction("244.8"), Fraction("244.80"), True),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        ("é", "e\u0301", True),
        ("a", "A", False),
        ("1", 1, False),
        ((1, "é"), (Fraction(1), "e\u0301"), True),
        ((1,), (1, 1), False),
        ((1,), (True,), False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"b": 1}, False),
    ],
)
def test_equal_means_the_same_value(left: Value, right: Value, same: bool) -> None:
    assert equal(left, right) is same
    assert equal(right, left) is same


@given(types)
def test_says_in_words_what_a_type_asks_for(kind: Type) -> None:
    assert wanted(kind)[:2] in {"a ", "on", "tr"}


@given(st.integers(1, 10**60))
def test_decimals_end_where_only_twos_and_fives_divide(denominator: int) -> None:
    rest = denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    places = decimals_of(denominator)
    assert (places is not None) == (rest == 1)
    if places is not None:
        assert 10**places % denominator == 0
        assert places == 0 or 10 ** (places - 1) % denominator != 0


def test_the_cap_is_forty_digits() -> None:
    assert DIGITS == 40


def test_a_list_is_as_long_as_a_loop_can_be() -> None:
    assert from_json([1] * 10_000, ListType(INT)) == (1,) * 10_000
    with pytest.raises(ValueError, match="xs: expected at most 10000 items, found 10001"):
        from_json([1] * 10_001, ListType(INT), "xs")
