"""Text that is no line of a trace, a wrong frame, text that is cut or too long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from guard.trace.lines import LIMITS
from tests.faults.faithful import NONCE, Mutant, Sample, changed_line, inserted_line, spots
from tests.faults.values import DATE

_PROSE: Final = (
    "Now let me compute the next step.",
    "```",
    "- a point",
    "<think>",
    "| 1 | 2 |",
    "@note 1",
    "@begin another 3fa92c",
    f"@end {'0' * 6}",
)


def prose(sample: Sample, index: int) -> Iterator[Mutant]:
    """A line in front of a step that is none of a trace."""
    for line in _PROSE:
        yield inserted_line(sample, index, line, "malformed", name="prose")
    if index == len(sample.steps) - 1:  # and in front of the closing line
        for line in _PROSE:
            yield inserted_line(sample, index + 1, line, "malformed", name="prose")


def decorated(sample: Sample, index: int) -> Iterator[Mutant]:
    """A step's line with something around it."""
    path, _, rest = sample.lines[index + 1].partition(" ")
    for line in (
        f"Step {path}: {rest}",
        f"{path}. {rest}",
        f"- {path} {rest}",
        f"**{path}** {rest}",
        f"{path} {rest}.",
        f"{path} {rest} // done",
        f"0{path} {rest}",
        f"{path} {rest} = ",
    ):
        yield changed_line(sample, index, line, "malformed", 0, name="decorated")


def run_together(sample: Sample, index: int) -> Iterator[Mutant]:
    """A step's line and the next in one."""
    lines = sample.lines
    lines[index + 1 : index + 3] = [" ".join(lines[index + 1 : index + 3])]
    yield Mutant(
        name="run_together",
        text="".join(f"{line}\n" for line in lines),
        kind="malformed",
        step=sample.path(index),
        at=sample.start(index),
    )


def misspelled(sample: Sample, index: int) -> Iterator[Mutant]:
    """A number as people write it."""
    expected, value = sample.steps[index]
    line = sample.lines[index + 1]
    for spot in spots(expected, value):
        shown = spot.value or ""
        if DATE.fullmatch(shown):
            for spelling in (
                "2026-02-30",
                "01.06.2026",
                "2026/06/01",
                "1 June 2026",
                f"{shown}T25:00Z",
            ):
                changed = f"{line[: spot.value_at]}{spelling}{line[spot.value_at + len(shown) :]}"
                yield changed_line(sample, index, changed, "malformed", 0, name="misspelled")
        if not re.fullmatch(r"\d+(\.\d+)?", shown):
            continue
        spellings = [
            f"+{shown}",
            f"0{shown}",
            f"${shown}",
            f"{shown}e0",
            f"{shown}.",
            f"**{shown}**",
            f"{shown} kg",
            f"\N{MINUS SIGN}{shown}",
            "".join(chr(ord(c) + 0xFEE0) if c.isdigit() else c for c in shown),
        ]
        if len(expected.cells) == 1 and not expected.cells[0].key:
            spellings.append(f"{shown},000")
        for spelling in spellings:
            changed = f"{line[: spot.value_at]}{spelling}{line[spot.value_at + len(shown) :]}"
            yield changed_line(sample, index, changed, "malformed", 0, name="misspelled")


def misframed(sample: Sample, index: int) -> Iterator[Mutant]:
    """A wrong opening or closing line. Once a trace: at its first step."""
    if index:
        return
    first, *inner, _ = sample.lines
    name = sample.program.name
    for opening in (f"@begin {name} {'0' * 6}", f"@begin {name}x {NONCE}", "Sure!", "", f"@end {NONCE}"):
        lines = [opening or inner[0], *(inner if opening else inner[1:]), f"@end {NONCE}"]
        text = "".join(f"{line}\n" for line in lines)
        yield Mutant(name="misframed", text=text, kind="malformed", step="", at=0)
    yield Mutant(name="misframed", text=f"Here it is:\n{sample.trace}", kind="malformed", step="", at=0)
    whole = "".join(f"{line}\n" for line in (first, *inner))
    for closing in (f"@end {'0' * 6}\n", "@end\n", f"@begin {name} {NONCE}\n", "done\n", ""):
        yield Mutant(name="misframed", text=whole + closing, kind="malformed", step="", at=len(whole))


def cut(sample: Sample, index: int) -> Iterator[Mutant]:
    """The text breaks off in front of a step's line, in it, or right before its end."""
    start, line = sample.start(index), sample.lines[index + 1]
    for length in {0, 1, len(line) // 2, len(line)}:
        for reason in ("length", None, "content_filter"):
            yield Mutant(
                name="cut",
                text=sample.trace[: start + length],
                kind="truncated",
                step=sample.due[index],
                at=start,
                finish_reason=reason,
            )
    if not index:
        yield _cut_in_opening(sample)
        yield _cut_in_closing(sample)


def _cut_in_opening(sample: Sample) -> Mutant:
    text = sample.trace[:4]
    return Mutant(name="cut", text=text, kind="truncated", step=sample.due[0], at=0, finish_reason="length")


def _cut_in_closing(sample: Sample) -> Mutant:
    start = sample.start(len(sample.steps))
    text = sample.trace[: start + 3]
    return Mutant(name="cut", text=text, kind="truncated", step="", at=start, finish_reason="length")


def too_long(sample: Sample, index: int) -> Iterator[Mutant]:
    """A line, a number or a text longer than is read."""
    line = sample.lines[index + 1]
    padded = f"{line} {''.join(f'{number} ' for number in range(LIMITS.line // 4))}"
    yield changed_line(sample, index, padded, "limit_exceeded", 0, name="too_long", step=sample.due[index])
    expected, value = sample.steps[index]
    for spot in spots(expected, value):
        if spot.value and re.fullmatch(r"-?\d+(\.\d+)?%?", spot.value):
            changed = f"{line[: spot.value_at]}{'7' * 41}{line[spot.value_at + len(spot.value) :]}"
            yield changed_line(sample, index, changed, "limit_exceeded", spot.value_at, name="too_long")


def runaway(sample: Sample, index: int) -> Iterator[Mutant]:
    """A line, or blank lines, that go on and on: what is certain is found while they do."""
    line = sample.lines[index + 1]
    begun = line.rpartition(" ")[0]
    if '"' in begun:  # a text, or a quote, may be of any length
        return
    for more in ("7" * 400, " " * 1200, "=" * 600, ", 1" * 6000, " 1 +" * 3000, "a" * 700, "\t " * 800):
        changed = f"{begun} {more}"
        yield changed_line(sample, index, changed, "runaway", 0, name="runaway", step=sample.due[index])
    blank = "\n" * 600
    text = f"{sample.trace[: sample.start(index)]}{blank}"
    yield Mutant(
        name="runaway", text=text, kind="runaway", step=sample.due[index], at=sample.start(index) + 512
    )
