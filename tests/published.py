"""The rules of `examples/`, computed another way than the procedures do: closed forms, published tables, cents.

A rule takes inputs and decisions and gives the answer, or the kind of end that refuses one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from math import ceil, floor
from typing import Any, Final

from guard.procedure.expected import EndKind

Given = Mapping[str, Any]
Rule = Callable[[Given, Given], Any]

CENT: Final = Fraction(1, 100)


def half_up(number: Fraction | int, unit: Fraction | int = 1) -> Fraction:
    """Round what is not below 0 to a multiple of `unit`."""
    return floor(Fraction(number) / unit + Fraction(1, 2)) * Fraction(unit)


def cents(*amounts: Fraction | int) -> list[int]:
    return [int(half_up(amount, CENT) * 100) for amount in amounts]


# --- clinical -------------------------------------------------------------------------------------


def blatchford(_: Given, read: Given) -> Any:
    urea, haemoglobin = read["urea"], read["haemoglobin"]
    mmol = urea["value"] * (Fraction(357, 1000) if urea["unit"] == "mg/dL" else 1)
    grams = haemoglobin["value"] / Fraction(10 if haemoglobin["unit"] == "g/L" else 1)
    score = (0, 2, 3, 4, 6)[bisect_right([Fraction(13, 2), 8, 10, 25], mmol)]
    points = {"male": ([10, 12, 13], (6, 3, 1, 0)), "female": ([10, 12], (6, 1, 0))}
    bounds, values = points[read["sex"]]
    score += values[bisect_right(bounds, grams)]
    score += (3, 2, 1, 0)[bisect_right([90, 100, 110], read["systolic"])]
    score += (
        (read["pulse"] >= 100) + read["melaena"] + 2 * (read["syncope"] + read["hepatic"] + read["cardiac"])
    )
    return {"score": score, "care": "admit" if score else "consider early discharge"}


def clearance(given: Given, _: Given) -> Any:
    """With the weights by index in one list."""
    if given["age"] < 18:
        return EndKind.DENY
    inches = given["height_cm"] / Fraction(254, 100)
    if inches < 60:
        return EndKind.ESCALATE
    if given["weight_kg"] <= 0 or given["creatinine"] <= 0:
        return EndKind.DENY
    female, actual = given["sex"] == "female", given["weight_kg"]
    ideal = half_up(Fraction(455 if female else 500, 10) + Fraction(23, 10) * (inches - 60), CENT)
    index = actual / (given["height_cm"] / Fraction(100)) ** 2
    weights = (actual, min(actual, ideal), Fraction(2, 5) * actual + Fraction(3, 5) * ideal)
    weight = weights[bisect_right([Fraction(185, 10), Fraction(25)], index)]
    milligrams = given["creatinine"] / (Fraction(884, 10) if given["unit"] == "umol/L" else Fraction(1))
    rate = (140 - given["age"]) * weight / (72 * milligrams) * Fraction(85 if female else 100, 100)
    return half_up(rate, Fraction(1, 10))


def natural_log(number: Fraction) -> Fraction:
    """To six digits."""
    with localcontext() as context:
        context.prec = 40
        exact = (Decimal(number.numerator) / number.denominator).ln()
        return Fraction(exact.quantize(Decimal("0.000001"), ROUND_HALF_UP))


def meld(given: Given, read: Given) -> Any:
    """In thousandths of the weights, the middle of three values for each limit."""
    if given["age"] < 12:
        return EndKind.DENY
    units = {"mg/dL": (Fraction(1), Fraction(1)), "umol/L": (Fraction(884, 10), Fraction(171, 10))}
    values = (given["creatinine"], given["bilirubin"])
    creatinine, bilirubin = (
        half_up(v / unit, CENT) for v, unit in zip(values, units[given["unit"]], strict=True)
    )
    limited = (
        Fraction(4) if read["dialysed"] else sorted((Fraction(1), creatinine, Fraction(4)))[1],
        max(bilirubin, Fraction(1)),
        max(given["inr"], Fraction(1)),
    )
    weighted = (
        weight * natural_log(Fraction(v)) for weight, v in zip((957, 378, 1120), limited, strict=True)
    )
    score = 10 * half_up(sum(weighted, Fraction(643)) / 1000, Fraction(1, 10))
    if score > 11:
        missing = 137 - sorted((125, given["sodium"], 137))[1]
        score = half_up(score + missing * (Fraction(132, 100) - Fraction(33, 1000) * score))
    return min(score, 40)


def westgard(given: Given, _: Given) -> Any:
    """By standard scores and windows over the ten measurements in the order of time."""
    if given["sd"] <= 0:
        return EndKind.DENY
    if len(given["earlier"]) != 6:
        return EndKind.ESCALATE
    runs = [given[run][place] for run in ("previous", "current") for place in ("first", "second")]
    scores = [Fraction(x - given["mean"]) / given["sd"] for x in (*given["earlier"], *runs)]

    def beyond(limit: int, window: list[Fraction]) -> bool:
        return min(window) > limit or max(window) < -limit

    now = scores[-2:]
    rules = {
        "in control": max(map(abs, now)) <= 2,
        "reject 1_3s": max(map(abs, now)) > 3,
        "reject 2_2s": beyond(2, now) or beyond(2, scores[-3:-1]),
        "reject R_4s": min(now) < -2 and max(now) > 2,
        "reject 4_1s": beyond(1, scores[-4:]),
        "reject 10_x": beyond(0, scores),
        "accept with warning": True,
    }
    return next(decision for decision, holds in rules.items() if holds)


# --- taxes and benefits ---------------------------------------------------------------------------

# Schedules X, Y-1 and Z of 2024 as published: over this much, the tax is this and RATES of what is above. In front of
# them the standard deduction.
RATES: Final = (10, 12, 22, 24, 32, 35, 37)
SCHEDULES: Final = {
    "single": (
        14600,
        (0, 11600, 47150, 100525, 191950, 243725, 609350),
        (0, 1160, 5426, 17168.5, 39110.5, 55678.5, 183647.25),
    ),
    "married filing jointly": (
        29200,
        (0, 23200, 94300, 201050, 383900, 487450, 731200),
        (0, 2320, 10852, 34337, 78221, 111357, 196669.5),
    ),
    "head of household": (
        21900,
        (0, 16550, 63100, 100500, 191950, 243700, 609350),
        (0, 1655, 7241, 15469, 37417, 53977, 181954.5),
    ),
}


def income_tax(given: Given, _: Given) -> Any:
    if not 0 <= given["income"] < 999999999:
        return EndKind.ESCALATE
    standard, feet, taxes = SCHEDULES[given["status"]]
    taxable = max(given["income"] - max(standard, given["itemized"]), 0)
    row = bisect_right(feet, taxable) - 1
    above = (taxable - feet[row]) * Fraction(RATES[row], 100)
    return {"taxable": taxable, "tax": half_up(Fraction(taxes[row]) + above, CENT)}


# By household size: maximum allotments and standard deductions, fiscal year 2024, 48 states.
ALLOTMENTS: Final = (291, 535, 766, 973, 1155, 1386, 1532, 1751)
STANDARD: Final = (198, 198, 198, 208, 244, 279, 279, 279)


def snap(given: Given, _: Given) -> Any:
    """The limits are those of the poverty guidelines of 2023, by the month and rounded up."""
    home = given["h"]
    size, special = home["size"], home["elderly_or_disabled"]
    if not 1 <= size <= 8:
        return EndKind.ESCALATE
    poverty = Fraction(14580 + 5140 * (size - 1), 12)
    gross = home["earned"] + home["unearned"]
    if not special and gross > ceil(poverty * Fraction(13, 10)):
        return EndKind.DENY
    deductions = half_up(home["earned"] / Fraction(5)) + STANDARD[size - 1] + home["dependent_care"]
    adjusted = max(gross - deductions, 0)
    over = max(2 * home["shelter"] - adjusted, 0) / Fraction(2)
    net = half_up(max(adjusted - half_up(over if special else min(over, 672)), 0))
    if net > ceil(poverty):
        return EndKind.DENY
    benefit = max(ALLOTMENTS[size - 1] - ceil(net * 3 / 10), 0)
    # The least that one or two people get is 8 % of the allotment of one.
    least = half_up(Fraction(ALLOTMENTS[0] * 8, 100)) if size <= 2 else 0
    return {"net_income": net, "benefit": max(benefit, least)}


def years_between(earlier: date, later: date) -> int:
    return later.year - earlier.year - ((later.month, later.day) < (earlier.month, earlier.day))


def redundancy(given: Given, _: Given) -> Any:
    """In closed form: how many of the years counted began at 41 or later, and how many below 22."""
    born, started, after = given["born"], given["started"], given["dismissed"] + timedelta(days=1)
    if not date(2024, 4, 6) <= given["dismissed"] <= date(2025, 4, 5) or started <= born:
        return EndKind.ESCALATE
    if years_between(started, after) < 2:
        return EndKind.DENY
    counted = min(years_between(started, after), 20)
    # Whole years from a birthday to the day after, where the leap day's birthday is the first of March.
    age = years_between(born, after)
    late, early = min(max(age - 41, 0), counted), counted - min(max(age - 22, 0), counted)
    weeks = counted + Fraction(late - early, 2)
    return {"years": counted, "weeks": weeks, "pay": half_up(weeks * min(given["weekly_pay"], 700), CENT)}


# --- money ----------------------------------------------------------------------------------------


def baggage(given: Given, read: Given) -> Any:
    """Each step up in membership or in cabin brings one more free bag."""
    if read["passengers"] > 5:
        return EndKind.DENY
    tier = ("regular", "silver", "gold").index(given["tier"])
    cabin = ("basic economy", "economy", "business").index(read["cabin"])
    free = read["passengers"] * (tier + cabin)
    paid = read["bags"] - min(free, read["bags"])
    return {"free": min(free, read["bags"]), "paid": paid, "fee": 50 * paid}


def amortisation(given: Given, _: Given) -> Any:
    """The annuity in closed form, the schedule in whole cents."""
    amount, annual, months = given["amount"], given["annual"], given["months"]
    if amount <= 0 or annual <= 0 or months < 1:
        return EndKind.DENY
    monthly = half_up(annual / Fraction(12), Fraction(1, 10**10))
    payment = half_up(amount * monthly / (1 - (1 + monthly) ** -months), CENT)
    [owed, level], interest = cents(amount, payment), 0
    for month in range(months):
        charge = int(half_up(owed * monthly))
        interest += charge
        owed += charge - (level if month < months - 1 else 0)
    return {"payment": payment, "last": owed * CENT, "interest": interest * CENT}


def payroll(given: Given, _: Given) -> Any:
    """Forty hours at the regular rate and those above at one and a half times it."""
    if given["rate"] < Fraction(29, 4):
        return EndKind.ESCALATE
    hours = sum((half_up(Fraction(shift["minutes"], 15)) for shift in given["shifts"]), Fraction(0)) / 4
    if not hours:
        return EndKind.DENY
    regular = half_up(hours * given["rate"] + given["bonus"], CENT) / hours
    overtime = max(hours - 40, Fraction(0))
    gross = half_up(regular * (hours - overtime) + regular * Fraction(3, 2) * overtime, CENT)
    before, after = given["paid_this_year"], given["paid_this_year"] + gross
    insured = min(after, 168600) - min(before, 168600)
    high = max(after, 200000) - max(before, 200000)
    taxes = (insured * Fraction(62, 1000), gross * Fraction(145, 10000), high * Fraction(9, 1000))
    return {"gross": gross, "net": gross - sum(half_up(tax, CENT) for tax in taxes)}


def claim(given: Given, read: Given) -> Any:
    """By one curve: what the member has paid in all after this much was allowed in all."""
    if not read["in_network"]:
        return EndKind.ESCALATE
    if not read["bills"]:
        return EndKind.DENY
    plan, paid = given["plan"], given["paid_so_far"]
    deductible, share, limit = plan["deductible"], plan["coinsurance"], plan["limit"]
    before = paid if paid <= deductible else deductible + (paid - deductible) / share
    allowed = sum(bill["allowed"] for bill in read["bills"])
    after = before + allowed
    curve = min(after, deductible) + max(after - deductible, 0) * share
    member = max(min(curve, limit), paid) - paid
    return {"member": member, "insurer": allowed - member}


def reconciliation(given: Given, _: Given) -> Any:
    """Matched as multisets of references."""
    books, statement = given["books"], given["statement"]
    ours, theirs = Counter(e["ref"] for e in books), Counter(e["ref"] for e in statement)
    if any(number > 1 or theirs[ref] > 1 for ref, number in ours.items()):
        return EndKind.ESCALATE
    waiting = [e for e in books if e["ref"] not in theirs]
    written = {e["ref"]: e["amount"] for e in books}
    news = [s["amount"] - written.get(s["ref"], 0) for s in statement if s["amount"] != written.get(s["ref"])]
    cash = given["bank_balance"] + sum(e["amount"] for e in waiting)
    if cash != given["book_balance"] + sum(news):
        return EndKind.ESCALATE
    return {"cash": cash, "outstanding": len(waiting), "to_book": len(news)}


def flight_delay(given: Given, read: Given) -> Any:
    inside = given["departs_in_eu"] and given["arrives_in_eu"]
    from_outside = not given["departs_in_eu"]
    if from_outside and not (given["arrives_in_eu"] and given["eu_carrier"]):
        return EndKind.DENY
    if not read["checked_in"] or read["minutes_late"] < 3 * 60:
        return EndKind.DENY
    if read["cause"] in {"weather", "air traffic control", "security"}:
        return EndKind.ESCALATE
    if given["km"] <= 1500:
        return {"euros": 250 * read["passengers"]}
    if inside or given["km"] <= 3500:
        return {"euros": 400 * read["passengers"]}
    return {"euros": (300 if read["minutes_late"] < 4 * 60 else 600) * read["passengers"]}


def per_diem(_: Given, read: Given) -> Any:
    """In cents."""
    if read["abroad"]:
        return EndKind.ESCALATE
    if not read["days"]:
        return EndKind.DENY
    rates = {"full day": 2800, "single day up to 8 hours": 0}
    days = (
        rates.get(day["kind"], 1400) - 560 * day["breakfast"] - 1120 * (day["lunch"] + day["dinner"])
        for day in read["days"]
    )
    return sum(max(day, 0) for day in days) * CENT


RULES: Final[Mapping[str, Rule]] = {
    rule.__name__: rule
    for rule in (
        amortisation,
        baggage,
        blatchford,
        claim,
        clearance,
        flight_delay,
        income_tax,
        meld,
        payroll,
        per_diem,
        reconciliation,
        redundancy,
        snap,
        westgard,
    )
}

# How far the two ways may lie apart, where the procedure rounds on its way and the rule does not.
TOLERANCES: Final[Mapping[str, Fraction]] = {"claim": Fraction(5, 100)}
