"""The time of a run: given with the request, else by a clock, in the zone that the file states."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from guard.errors import RequestError
from guard.procedure.execute import Program
from guard.procedure.load import load
from guard.procedure.values import spell

MOMENT = datetime(2026, 6, 30, 22, 30, 7, 123_456, tzinfo=UTC)
TEXT = """\
now in "Europe/Berlin"

procedure p(bought: date, now: datetime, today: date) -> bool
  late = today - bought > 30
  return late or hour(now) >= 17
"""


def program(text: str = TEXT) -> Program:
    return load(text).procedures["p"]


def accepted(
    raw: dict[str, object], moment: datetime | None = MOMENT, made: Program | None = None
) -> dict[str, str]:
    made = made or program()
    types = {parameter.name: parameter.type for parameter in made.parameters}
    return {name: spell(value, types[name]) for name, value in made.accept(raw, moment).items()}


def test_a_clock_gives_what_a_request_leaves_out() -> None:
    assert accepted({"bought": "2026-06-01"}) == {
        "bought": "2026-06-01",
        "now": "2026-07-01T00:30:07+02:00",
        "today": "2026-07-01",
    }


def test_a_request_may_carry_its_time() -> None:
    given = accepted({"bought": "2026-06-01", "now": "2026-01-31T23:30:00Z"})
    assert given == {"bought": "2026-06-01", "now": "2026-01-31T23:30:00+00:00", "today": "2026-02-01"}


def test_a_request_may_carry_the_day_alone() -> None:
    given = accepted({"bought": "2026-06-01", "today": "2020-01-01"})
    assert (given["today"], given["now"]) == ("2020-01-01", "2026-07-01T00:30:07+02:00")


def test_where_no_clock_is_read_the_time_is_missing() -> None:
    with pytest.raises(RequestError, match=r"input 'now' is missing.*input 'today' is missing"):
        accepted({"bought": "2026-06-01"}, None)


def test_a_wrong_time_is_the_requests_fault() -> None:
    with pytest.raises(RequestError, match="input 'now': expected a date with time"):
        accepted({"bought": "2026-06-01", "now": "soon"})


def test_a_time_at_the_end_of_the_calendar_gives_no_day() -> None:
    with pytest.raises(RequestError, match="input 'today' is missing"):
        accepted({"bought": "2026-06-01", "now": "9999-12-31T23:59:59Z"})


def test_a_file_without_a_zone_has_inputs_like_others() -> None:
    plain = program(TEXT.split("\n", 2)[2])
    assert plain.zone is None
    with pytest.raises(RequestError, match="missing"):
        accepted({"bought": "2026-06-01"}, made=plain)


def test_a_procedure_that_asks_for_no_time_is_given_none() -> None:
    text = f"{TEXT}\nprocedure q(day: date) -> int\n  return year(day)\n"
    other = load(text).procedures["q"]
    assert other.zone is None
    assert accepted({"day": "2026-06-01"}, made=other) == {"day": "2026-06-01"}


def test_the_zone_belongs_to_the_identity_where_it_is_used() -> None:
    elsewhere = TEXT.replace("Europe/Berlin", "UTC")
    assert program().digest != program(elsewhere).digest
    without = "procedure p(day: date) -> int\n  return year(day)\n"
    assert program(without).digest == program(f"{TEXT.splitlines()[0]}\n{without}").digest


def test_a_sub_procedure_is_given_the_time_by_its_caller() -> None:
    text = (
        TEXT
        + "\nprocedure q(now: datetime) -> bool\n  on = date(now)\n  late = do p(on, now, on)\n  return late\n"
    )
    made = load(text).procedures["q"]
    assert accepted({}, made=made) == {"now": "2026-07-01T00:30:07+02:00"}
