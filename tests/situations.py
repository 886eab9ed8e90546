"""Situations for the procedures of `examples/`: inputs and what a model decides, near the places where rules turn."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from typing import Any, Final

from hypothesis import strategies as st

Situation = tuple[dict[str, Any], dict[str, Any]]

TEXT: Final = st.just("as it was read")
FLAG: Final = st.booleans()
MOSTLY: Final = st.sampled_from([True, True, True, True, True, False])


def decimals(least: int, most: int, places: int) -> st.SearchStrategy[Fraction]:
    """Numbers with that many places, from `least` to `most`; whole ones are common."""
    unit = 10**places
    whole = st.integers(least, most).map(Fraction)
    return whole | st.integers(least * unit, most * unit).map(lambda n: Fraction(n, unit))


def records(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(fields)


def situation(
    inputs: st.SearchStrategy[dict[str, Any]], **decided: st.SearchStrategy[Any]
) -> st.SearchStrategy[Situation]:
    return st.tuples(inputs, records(**decided))


def lab(units: tuple[tuple[str, int], ...]) -> st.SearchStrategy[dict[str, Any]]:
    """A value in one of several units; the number is the least that is too much."""
    one = [records(value=decimals(0, most, 1).filter(bool), unit=st.just(unit)) for unit, most in units]
    return st.one_of(one)


def money(most: int) -> st.SearchStrategy[Fraction]:
    return decimals(0, most, 2)


def _books() -> st.SearchStrategy[dict[str, Any]]:
    """Two lists over few references. Both balances start from the same, so they mostly meet."""
    entry = records(ref=st.sampled_from("abcdefgh"), amount=decimals(-50, 50, 2))
    unique = st.lists(entry, max_size=6, unique_by=lambda e: e["ref"])
    lists = unique | st.lists(entry, max_size=6)

    def balances(parts: tuple[Any, ...]) -> dict[str, Any]:
        start, books, statement, error = parts
        return {
            "book_balance": start + sum(e["amount"] for e in books),
            "bank_balance": start + sum(e["amount"] for e in statement) + error,
            "books": books,
            "statement": statement,
        }

    return st.tuples(money(1000), lists, lists, st.sampled_from([0, 0, 0, 1])).map(balances)


# Control measurements: anywhere around 200, a little above it, far on either side.
_MEASURED: Final = decimals(188, 212, 1) | decimals(201, 209, 1) | st.sampled_from([191, 209])
_PAIR: Final = records(first=_MEASURED, second=_MEASURED)
_SIX: Final = st.lists(decimals(195, 209, 1), min_size=6, max_size=6)
_HIGH: Final = st.lists(decimals(201, 209, 1), min_size=6, max_size=6)
_DAY: Final = records(
    kind=st.sampled_from(
        ["full day", "arrival", "departure", "single day over 8 hours", "single day up to 8 hours"]
    ),
    breakfast=FLAG,
    lunch=FLAG,
    dinner=FLAG,
)
_PLAN: Final = records(
    deductible=money(1000),
    coinsurance=st.integers(5, 50).map(lambda n: Fraction(n, 100)),
    limit=decimals(1000, 4000, 2),
)

SITUATIONS: Final[Mapping[str, st.SearchStrategy[Situation]]] = {
    "amortisation": situation(
        records(
            amount=money(5000),
            annual=st.integers(0, 2500).map(lambda n: Fraction(n, 10000)),
            months=st.integers(0, 18),
        )
    ),
    "baggage": situation(
        records(request=TEXT, tier=st.sampled_from(["regular", "silver", "gold"])),
        cabin=st.sampled_from(["basic economy", "economy", "business"]),
        passengers=st.integers(1, 7),
        bags=st.integers(0, 25),
    ),
    "blatchford": situation(
        records(note=TEXT),
        sex=st.sampled_from(["male", "female"]),
        urea=lab((("mmol/L", 30), ("mg/dL", 80))),
        haemoglobin=lab((("g/dL", 16), ("g/L", 160))),
        systolic=st.integers(70, 130),
        pulse=st.integers(60, 140),
        melaena=FLAG,
        syncope=FLAG,
        hepatic=FLAG,
        cardiac=FLAG,
    ),
    "claim": situation(
        records(letter=TEXT, plan=_PLAN, paid_so_far=money(4000)),
        in_network=MOSTLY,
        bills=st.lists(records(service=TEXT, allowed=money(2000).filter(bool)), max_size=4).map(tuple),
    ),
    "clearance": situation(
        records(
            sex=st.sampled_from(["male", "female"]),
            age=st.integers(10, 95),
            weight_kg=decimals(30, 160, 1),
            height_cm=decimals(145, 200, 1),
            creatinine=decimals(0, 9, 2),
            unit=st.just("mg/dL"),
        )
        | records(
            sex=st.sampled_from(["male", "female"]),
            age=st.integers(18, 95),
            weight_kg=decimals(30, 160, 1),
            height_cm=decimals(155, 200, 1),
            creatinine=decimals(40, 600, 2),
            unit=st.just("umol/L"),
        )
    ),
    "flight_delay": situation(
        records(
            letter=TEXT,
            km=st.integers(1, 9000) | st.sampled_from([1500, 1501, 3500, 3501]),
            departs_in_eu=MOSTLY,
            arrives_in_eu=FLAG,
            eu_carrier=FLAG,
        ),
        passengers=st.integers(1, 6),
        minutes_late=st.integers(150, 400) | st.sampled_from([179, 180, 239, 240]),
        cause=st.sampled_from(
            ["technical", "crew or staffing", "weather", "air traffic control", "security", "not stated"]
        ),
        checked_in=MOSTLY,
    ),
    "income_tax": situation(
        records(
            status=st.sampled_from(["single", "married filing jointly", "head of household"]),
            income=decimals(-1, 900000, 2),
            itemized=money(40000),
        )
    ),
    "meld": situation(
        records(
            note=TEXT,
            age=st.sampled_from([11, 12, 40, 60]),
            creatinine=decimals(0, 6, 2),
            bilirubin=decimals(0, 40, 2),
            unit=st.just("mg/dL"),
            inr=decimals(0, 6, 2),
            sodium=st.integers(115, 150),
        )
        | records(
            note=TEXT,
            age=st.just(50),
            creatinine=decimals(40, 600, 2),
            bilirubin=decimals(5, 600, 2),
            unit=st.just("umol/L"),
            inr=decimals(0, 3, 2),
            sodium=st.integers(122, 140),
        ),
        dialysed=MOSTLY.map(lambda flag: not flag),
    ),
    "payroll": situation(
        records(
            shifts=st.lists(records(day=TEXT, minutes=st.integers(0, 900)), max_size=7),
            rate=decimals(7, 9, 2) | decimals(8, 90, 2),
            bonus=money(300),
            paid_this_year=money(1000) | decimals(160000, 210000, 2),
        )
    ),
    "per_diem": situation(
        records(description=TEXT),
        days=st.lists(_DAY, max_size=6).map(tuple),
        abroad=MOSTLY.map(lambda flag: not flag),
    ),
    "reconciliation": situation(_books()),
    "redundancy": situation(
        records(
            born=st.dates(date(1955, 1, 1), date(2008, 12, 31)) | st.just(date(1984, 2, 29)),
            started=st.dates(date(2000, 1, 1), date(2023, 12, 31)),
            dismissed=st.dates(date(2024, 4, 1), date(2025, 4, 10)) | st.just(date(2025, 2, 28)),
            weekly_pay=money(1000),
        )
    ),
    "snap": situation(
        records(
            h=records(
                size=st.integers(0, 9),
                elderly_or_disabled=FLAG,
                earned=money(3000),
                unearned=money(2000),
                dependent_care=money(600),
                shelter=money(2000),
            )
        )
    ),
    "westgard": situation(
        records(
            mean=st.just(200),
            sd=st.sampled_from([4, 4, 4, 3, 0]),
            current=_PAIR,
            previous=_PAIR,
            earlier=_HIGH | _HIGH | _SIX | st.lists(_SIX.map(min), max_size=7),
        )
    ),
}
