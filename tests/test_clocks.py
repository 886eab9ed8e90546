"""No clock of the day reaches a deadline: the linter refuses to read one, but where a date is for people."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOR_PEOPLE = {  # a date in an answer, a UUID that sorts by time, the inputs `now` and `today` of procedures
    "guard/proxy/delivery.py",
    "guard/engine.py",
}


def found(code: str) -> str:
    """What the linter says of a piece of the package."""
    command = [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--stdin-filename"]
    done = subprocess.run(
        [*command, "guard/piece.py", "-"], cwd=ROOT, input=code, capture_output=True, text=True, check=False
    )
    return done.stdout


@pytest.mark.parametrize(
    "code",
    [
        "import time\ntime.time()\n",
        "import time as t\nt.time_ns()\n",
        "from time import time\ntime()\n",
        "from time import clock_gettime, CLOCK_REALTIME\nclock_gettime(CLOCK_REALTIME)\n",
        "from time import gmtime, localtime\n",
        "from datetime import datetime\ndatetime.now()\n",
        "import datetime\ndatetime.datetime.utcnow()\n",
        "from datetime import date\ndate.today()\n",
    ],
)
def test_reading_a_clock_of_the_day_is_a_mistake(code: str) -> None:
    assert "TID251" in found(code)


def test_a_clock_that_never_goes_back_may_be_read() -> None:
    assert "TID251" not in found("import time\ntime.monotonic()\ntime.perf_counter()\n")


def test_there_is_no_exception_but_where_the_date_is_for_people() -> None:
    excepted = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "guard").rglob("*.py")
        if re.search(r"noqa:.*TID251", file.read_text())
    }
    assert excepted == FOR_PEOPLE
