"""What a request could cost is bounded before it costs it; what is sent on is as it was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.config import Service, build
from guard.config.read import load_config
from guard.engine import read_clock
from guard.errors import RequestError
from guard.proxy.binding import Bound, Caller, bind, choose
from guard.proxy.costs import CHARACTERS
from guard.wire.body import read_object

PROCEDURES = """\
record Line { qty: int, price: decimal }

procedure one(a: decimal) -> decimal
  return a + 1

procedure pairs(xs: list of int) -> int
  n = 0
  for x in xs at most 500
    for y in xs at most 500
      n = n + x * y
  return n

procedure sums(xs: list of int) -> int
  return sum(x * sum(y for y in xs) for x in xs)

procedure noted(note: text, other: string?) -> int
  extract n: int from note quote
  return n

procedure total(lines: list of Line) -> decimal
  return sum(l.qty * l.price for l in lines)
"""
CONFIG = """\
procedures: [p.proc]
upstreams: {u: {kind: generic, base_url: "http://127.0.0.1:9/v1"}}
policies: {more: {steps: 100000, passes: 250000}}
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Service:
    folder: Path = tmp_path_factory.mktemp("costs")
    (folder / "p.proc").write_text(PROCEDURES)
    (folder / "c.yaml").write_text(CONFIG)
    return build(load_config(folder / "c.yaml", {}), {})


def bound(service: Service, procedure: str, inputs: str, *, policy: str = "default", more: str = "") -> Bound:
    """Bind a request; `inputs` and `more` as they stand in its JSON."""
    body = (
        f'{{"model": "m", "messages": [{{"role": "user", "content": "Go."}}]{more}, "stepguard": '
        f'{{"procedure": "{procedure}", "policy": "{policy}", "inputs": {inputs}}}}}'
    ).encode()
    return bind(service, choose(service, Caller(), read_object(body)), body, read_clock())


def refused(service: Service, procedure: str, inputs: str) -> RequestError:
    with pytest.raises(RequestError) as caught:
        bound(service, procedure, inputs)
    return caught.value


NUMBERS = st.builds(
    lambda sign, whole, decimals, exponent: f"{sign}{whole}{decimals}{exponent}",
    st.sampled_from(["", "-"]),
    st.sampled_from(["0", "7", "10", "9" * 40, "9" * 41, "1" * 5_000]),
    st.sampled_from(["", ".0", ".10", "." + "3" * 41, "." + "0" * 5_000]),
    st.one_of(
        st.just(""),
        st.builds(
            lambda mark, size: f"{mark}{size}",
            st.sampled_from(["e", "E+", "e-"]),
            st.one_of(st.integers(0, 60), st.integers(0, 10**30)),
        ),
    ),
)


@settings(max_examples=200, deadline=None)
@given(NUMBERS)
def test_a_number_of_any_spelling_is_an_input_or_a_400(service: Service, number: str) -> None:
    """`0e99999999999999999999` is no number that anybody can hold, and was an internal error."""
    try:
        made = bound(service, "one", f'{{"a": {number}}}')
    except RequestError as error:
        if error.http_status != 400:
            raise
        return
    assert made.inputs["a"] == pytest.approx(float(number))


@pytest.mark.parametrize("number", ["0e99999999999999999999", "1e-99999999999999999999", "1e999999"])
@pytest.mark.parametrize("place", ["input", "field"])
def test_an_exponent_beyond_all_numbers(service: Service, number: str, place: str) -> None:
    if place == "input":
        assert refused(service, "one", f'{{"a": {number}}}').param in {"stepguard.inputs.a", None}
    elif not number.startswith("1e9"):  # which no reader of JSON takes
        assert str(bound(service, "one", '{"a": 1}', more=f', "top_k": {number}').extra["top_k"]) == number


@pytest.mark.parametrize("spelled", ["1.10", "1E5", "123456789012345678901234567890", "-0.0", "1e-7"])
def test_numbers_of_foreign_fields_stay_as_they_are_written(service: Service, spelled: str) -> None:
    made = bound(service, "one", '{"a": 1}', more=f', "vendor": {{"x": [{spelled}]}}')
    assert str(made.extra["vendor"]) == f"{{'x': [{spelled}]}}"


def test_a_run_that_would_be_too_long_is_refused_before_a_token_is_asked_for(service: Service) -> None:
    error = refused(service, "pairs", f'{{"xs": {[1] * 50}}}')
    assert error.code == "procedure_limit"
    assert error.http_status == 400
    assert "more than 1,000 steps (limit `steps`)" in error.message
    assert bound(service, "pairs", f'{{"xs": {[1] * 20}}}').program.name == "pairs"
    assert bound(service, "pairs", f'{{"xs": {[1] * 50}}}', policy="more").program.name == "pairs"


def test_one_step_that_goes_through_lists_too_often_is_refused_as_well(service: Service) -> None:
    error = refused(service, "sums", f'{{"xs": {[1] * 150}}}')
    assert error.code == "procedure_limit"
    assert "more than 3,000 times (limit `passes`)" in error.message
    assert bound(service, "sums", f'{{"xs": {[1] * 40}}}').program.name == "sums"
    assert bound(service, "sums", f'{{"xs": {[1] * 150}}}', policy="more").program.name == "sums"


def test_inputs_of_too_many_parts_are_refused_before_they_are_read(service: Service) -> None:
    lines = ", ".join(['{"qty": 1, "price": 1.25}'] * 2_000)
    error = refused(service, "total", f'{{"lines": [{lines}]}}')
    assert error.code == "procedure_limit"
    assert "3,000 parts" in error.message


@pytest.mark.parametrize("inside", ["inputs", "message"])
def test_texts_of_inputs_have_so_many_characters_together(service: Service, inside: str) -> None:
    def bound_to(note: str, other: str) -> Bound:
        given = {"note": note, "other": other} if inside == "inputs" else {"other": other}
        more = json.dumps([{"role": "user", "content": note}])
        return bound(service, "noted", json.dumps(given), more=f', "messages": {more}')

    assert bound_to("a" * (CHARACTERS - 9), "b" * 9).inputs["other"] == "b" * 9
    with pytest.raises(RequestError) as caught:
        bound_to("a" * (CHARACTERS - 8), "b" * 9)
    assert (caught.value.http_status, caught.value.code) == (413, "request_too_large")
    assert "200,000" in caught.value.message


def test_the_limits_are_those_of_the_policy(service: Service) -> None:
    extents: dict[str, Any] = {
        name: policy.procedures["one"].program.extent for name, policy in service.policies.items()
    }
    assert (extents["default"].steps, extents["default"].passes) == (1_000, 3_000)
    assert (extents["more"].steps, extents["more"].passes) == (100_000, 250_000)
