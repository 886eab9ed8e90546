"""What programs may import from `guard`, and that it is enough to check a trace as the reference shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import guard

ROOT = Path(__file__).parent.parent
TRACE = """\
@begin chain 3fa92c
1 s1 = 14 + 8 = 22
2 s2 = 22 * 3 = 66
3 s3 = 66 - 14 = 52
4 s4 = 52 + 22 = 74
5 s5 = 74 - 8 = 66
6 if 66 > 100 = false
7.1 s6 = 66 + 66 = 132
8 s7 = 132 + 52 = 184
9 return 184 - 22 = 162
@end 3fa92c
"""


def test_every_public_name_is_there_and_documented() -> None:
    assert all(getattr(guard, name).__doc__ for name in guard.__all__)
    assert sorted(guard.__all__) == guard.__all__


@pytest.mark.parametrize(
    ("trace", "verdict", "kind"),
    [(TRACE, "passed", None), (TRACE.replace("= 52\n", "= 53\n"), "failed", "wrong_value")],
)
def test_the_five_lines_of_the_reference_check_a_trace(
    trace: str, verdict: str, kind: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    [lines] = re.findall(r"```python\n(.*?)```", (ROOT / "grammars/README.md").read_text(), re.DOTALL)
    assert len(list(filter(None, lines.splitlines()))) == 5
    names: dict[str, object] = {"Path": Path, "trace": trace}
    exec(lines, names)
    violation = names["violation"]
    assert names["verdict"] == verdict
    assert (violation.kind if isinstance(violation, guard.Violation) else None) == kind
