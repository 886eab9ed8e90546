"""The formatter: canonical, idempotent, and it changes nothing but white space."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guard.errors import ProcedureError
from guard.procedure import syntax
from guard.procedure.format import WIDTH, formatted
from guard.procedure.load import load
from tests.strategies import Sample, samples

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.proc"))


def words(text: str) -> list[tuple[str, str]]:
    tokens = syntax.words(text + "\n")
    kept = [(token.type, "" if token.type.startswith("_") else str(token)) for token in tokens]
    # Blank lines at the top are a line break of their own.
    return kept[1:] if kept[:1] == [("_NL", "")] else kept


def test_words_and_blocks_get_their_canonical_places() -> None:
    text = (
        "\ufeff# first\r\n\r\n\r\nversion   '1'\r\n".replace("'", '"')
        + "table  t( a:int ,b : string )->percent,first match\n"
        + '     1 .. 9 ,"x"|"y"=> 5%\n     >=10,any=>-7%   # much\n'
        + "\n\nprocedure   p( a : int )->int   # why\n"
        + "\n     # about b\n"
        + "     b=- a*( -2 )+min( a,3 )\n"
        + "     if  not( b>2 )and a . x==[ 1,2 ]\n\n"
        + "               first :c={x:1}\n"
        + "               # of the arm\n"
        + "          # of the body, nearly\n"
        + "     return b to_\n"
        + "# the end\n\n\n"
    ).replace(" to_", "")
    assert formatted(text) == (
        '# first\n\nversion "1"\n\n'
        "table t(a: int, b: string) -> percent, first match\n"
        '  1..9, "x" | "y" => 5%\n'
        "  >= 10, any      => -7%  # much\n"
        "\n"
        "procedure p(a: int) -> int  # why\n"
        "  # about b\n"
        "  b = -a * (-2) + min(a, 3)\n"
        "  if not (b > 2) and a.x == [1, 2]\n"
        "    first: c = { x: 1 }\n"
        "    # of the arm\n"
        "  # of the body, nearly\n"
        "  return b\n"
        "# the end\n"
    )


def test_long_lines_are_broken_inside_their_brackets() -> None:
    text = f"procedure p(a: int) -> int\n  b = sum({', '.join(f'{number:020}' for number in range(6))}) + min(a, 2)\n"
    laid_out = formatted(text)
    assert laid_out.splitlines()[1:4] == ["  b = sum(", f"    {'0' * 20},", f"    {'0' * 19}1,"]
    assert laid_out.splitlines()[-1] == "  ) + min(a, 2)"
    assert max(map(len, laid_out.splitlines())) <= WIDTH
    assert formatted(laid_out) == laid_out


def test_comments_in_brackets_keep_their_words() -> None:
    text = (
        "procedure p(  # the inputs\n    a: int,  # first\n    # second\n    b: int\n    # no more\n) -> int\n"
        "  return (  # all\n    a +  # that\n    # and this\n    b\n  )  # so\n"
    )
    laid_out = formatted(text)
    assert laid_out == (
        "procedure p(  # the inputs\n  a: int,  # first\n  # second\n  b: int\n  # no more\n) -> int\n"
        "  return (  # all\n    a +  # that\n    # and this\n    b\n  )  # so\n"
    )
    assert formatted(laid_out) == laid_out


@pytest.mark.parametrize("text", ["", "\n\n", "# a\n", "\n# a\n\n\n# b\n\n"])
def test_a_file_without_words_keeps_its_comments(text: str) -> None:
    laid_out = formatted(text)
    assert laid_out.split() == text.split()
    assert formatted(laid_out) == laid_out


def test_what_breaks_the_syntax_is_said_and_not_laid_out() -> None:
    with pytest.raises(ProcedureError, match=r"f\.proc"):
        formatted("procedure p(\n", "f.proc")


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_the_shipped_procedures_are_laid_out(file: Path) -> None:
    text = file.read_text("utf-8")
    assert formatted(text) == text


def test_a_line_of_many_brackets_takes_no_longer_than_its_length_explains() -> None:
    text = f"procedure p(a: int) -> int\n  return {' + '.join(['(a)'] * 5_000)}\n"
    start = process_time()
    laid_out = formatted(text)
    assert process_time() - start < 5
    assert words(laid_out) == words(text)


@st.composite
def scattered(draw: st.DrawFn, sample: Sample) -> str:
    """Give a text other white space and comments, but the same words."""
    numbers = st.integers(0, 2)
    lines: list[str] = []
    for line in sample.text.splitlines():
        indent = len(line) - len(line.lstrip())
        lines += [draw(st.sampled_from(["", f"{' ' * draw(numbers)}# own {len(lines)}"]))] * draw(numbers)
        text = line.lstrip()
        if '"' not in text:
            text = draw(st.sampled_from([text, text.replace(" ", "  ")]))
        opening = draw(st.sampled_from(["(", "({}", "(  # in{}", "({}# above{}"]))
        for number in range(text.count("(") if opening != "(" else 0):
            # Each bracket's contents stand deeper than the line that it is on.
            blanks = "\n" + " " * (2 * indent + number + 1)
            text = text.replace("(", opening.replace("(", "\0").replace("{}", blanks), 1)
        text = text.replace("\0", "(")
        lines.append(f"{' ' * (2 * indent)}{text}{draw(st.sampled_from(['', '  # behind', ' ']))}")
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines)


@settings(max_examples=25)
@given(st.data())
def test_only_white_space_changes(data: st.DataObject) -> None:
    sample = data.draw(samples())
    text = data.draw(scattered(sample))
    laid_out = formatted(text)
    assert formatted(laid_out) == laid_out
    assert words(laid_out) == words(text)
    assert laid_out.count("#") == text.count("#")
    assert load(laid_out).procedures["made"].digest == sample.program.digest


@settings(max_examples=50)
@given(samples())
def test_generated_procedures_have_one_layout(sample: Sample) -> None:
    laid_out = formatted(sample.text)
    assert formatted(laid_out) == laid_out
    assert words(laid_out) == words(sample.text)
