"""What the command's exit codes mean."""

from __future__ import annotations

from typing import Final

OK: Final = 0
VIOLATIONS: Final = 1
USAGE: Final = 2
UNAVAILABLE: Final = 3
UNDECIDED: Final = 4

MEANINGS: Final = """exit codes:
  0  done, or the trace passed
  1  the trace has violations, the procedure fails, fmt --check found files to lay out, or
     an upstream is not as the table says
  2  the command, a procedure, an input or the configuration is wrong
  3  a model server, the embedded model or the output could not be used
  4  check --free found nothing wrong, but could not read all of the text
"""
